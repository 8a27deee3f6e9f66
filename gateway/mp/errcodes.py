"""Official Account errcodes and what each means for delivery (developers.weixin.qq.com, 全局返回码)."""

from __future__ import annotations

from gateway.errors import Action, ErrcodeTable
from gateway.mp import texts

_GROUPS: dict[Action, tuple[int, ...]] = {
    # 45065: the same clientmsgid was sent before; 45080, 45081: the typing hint was not needed
    Action.ok: (0, 45065, 45080, 45081),
    # 43117 is about one follower only, so it waits (retry's backoff) without pausing the account
    Action.retry: (-1, 45066, 43117),
    Action.refresh_token: (40001, 40014, 42001, 42007),
    Action.pause_account: (45009, 45011),
    Action.park: (45015, 45047),
    Action.switch_to_pull: (48001,),
    Action.target_fault: (40003, 43004, 43019, 50005, 48002, 43101),
    Action.operator: (
        *(40013, 41004, 40125, 40243, 40164, 89503, 89501, 89506, 89507),
        *(48006, 40037, 48004, 50001, 50002),
    ),
    Action.degrade: (40007,),  # a stale media id (stale_media), else a notice
    Action.dead: (41001, 40002, 45002, 45008, 45001, 44004, 44002, 47001, 40008, 47003),
}

TABLE = ErrcodeTable(
    actions={errcode: action for action, errcodes in _GROUPS.items() for errcode in errcodes},
    special={
        ("token", 40001): Action.operator,  # from stable_token the same number means: wrong AppSecret
        ("token", 40014): Action.operator,  # the token is refused although it was refreshed
        ("token", 42001): Action.operator,
        ("token", 42007): Action.operator,
    },
    pauses={45009: "day", 45011: "minute"},
    stale_media=frozenset({40007}),
    hints=texts.OPERATOR_HINTS,
)
