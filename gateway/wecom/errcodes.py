"""WeCom errcodes and what each means for delivery (developer.work.weixin.qq.com, 全局错误码, path/90313)."""

from __future__ import annotations

from gateway.errors import Action, ErrcodeTable
from gateway.wecom import texts

_GROUPS: dict[Action, tuple[int, ...]] = {
    Action.ok: (0, 86215),
    Action.retry: (-1, 6000, 45033),
    Action.refresh_token: (40001, 40014, 42001, 42007),
    Action.pause_account: (45009,),
    Action.park: (95001, 95002, 95013, 95018, 95031),
    Action.target_fault: (40003, 40031, 46004, 60111, 50002, 81013, 43004),
    Action.operator: (
        *(40013, 40091, 41004, 45031, 2000002, 60011, 48002, 48004, 48005, 48006, 50003, 60020, 301002, 40056, 43012),
        *(86003, 86008, 93000, 93004, 93008, 95000, 95003, 95004, 95011, 95012, 95014, 95017),
    ),
    # cards: a text says the same; 40007: a stale media id (stale_media), else a notice; aibot: an app message instead
    Action.degrade: (
        *(60140, 42014, 42015, 42016, 42017, 42018, 42019, 42020, 42028, 42031, 42035, 42038, 42039, 42042, 42045, 42047),
        *(40007, 846605, 846608),
    ),
    Action.dead: (
        *(830002, 41001, 82001, 82002, 82003, 40032, 40058, 40035, 40063, 40033, 40008, 44004, 45002, 45008, 45001, 40006),
        *(40009, 44001, 40004, 40005, 45029, 86001, 95007, 95008, 95016, 95030),
    ),
}

TABLE = ErrcodeTable(
    actions={errcode: action for action, errcodes in _GROUPS.items() for errcode in errcodes},
    special={
        ("token", 40001): Action.operator,  # from gettoken the same number means: wrong secret
        ("token", 40014): Action.operator,  # the token is refused although it was refreshed
        ("token", 42001): Action.operator,
        ("token", 42007): Action.operator,
        ("token", 45009): Action.retry,
        ("repeat", 42014): Action.ok,  # "taskid has existed": the first attempt was delivered
        ("repeat", 60140): Action.ok,  # the response_code is used up by the first attempt
        ("card_update", 60140): Action.ok,  # clicked twice: the card was replaced for the first click, and both have their words
    },
    pauses={45009: "minute"},
    stale_media=frozenset({40007}),
    hints=texts.OPERATOR_HINTS,
)
