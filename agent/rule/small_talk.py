"""What people say besides orders: greetings, thanks, goodbyes, a nod, who are you; each with a short answer of its own."""

from __future__ import annotations

import re

from agent import texts

_HELLO = re.compile(
    r"(?:(?:老师|师傅|亲|小?助手|机器人|请问|喂)[,，\s]*)?"
    r"(?:(?:你好|您好|hi|hello|hey|嗨|哈喽|在吗|在么|在不在|早上好|上午好|中午好|下午好|晚上好|早|早安|你们好|有人吗)(?:啊|呀|哦|呢)*[,，\s]*)+",
    re.IGNORECASE,
)
_THANKS = re.compile(
    r"(?:好的?[,，\s]*)?(?:谢谢|多谢|感谢|谢了|谢啦|辛苦了?|麻烦了|thanks|thank you|thx|3q|🙏)+(?:你们?|您|啦|了|哦|啊|哈|🙏)*",
    re.IGNORECASE,
)
_BYE = re.compile(
    r"(?:再见|拜拜?|拜了|回头见|明天见|晚安|bye(?:[\s-]*bye)?|88|先这样|就这样|没事了|没别的(?:事)?了?|下班了)(?:吧|啦|了|哈|哦|👋)*(?:[,，\s]*(?:再见|拜拜|晚安|谢谢))*",
    re.IGNORECASE,
)
_NOD = re.compile(
    r"(?:好|好的|好吧|好呀|好啊|好嘞|好哒|嗯+|恩|哦+|噢|喔|行|行吧|可以|收到|明白|明白了|知道了|懂了|了解|了解了|是|是的|对|对的|ok|okay|k|没问题|没事|"
    r"[👌👍🆗✅]+)(?:[,，\s~]*(?:好|好的|嗯|谢谢|收到|知道了|👌|👍))*",
    re.IGNORECASE,
)
_PRAISE = re.compile(
    r"(?:你)?(?:真|好|太|很|最)?(?:棒|厉害|聪明|贴心|牛|给力|不错|优秀|可爱)(?:了|啊|呀|哦|!)*|(?:干得|做得)(?:好|漂亮|不错)|赞+|nice|good|great",
    re.IGNORECASE,
)
_LAUGH = re.compile(r"(?:哈|呵|嘿|嘻|😂|😄|😁|🤣|😊|🙂|😀|😆|😅)+")
_WHO = re.compile(
    r"(?:(?:请|先)?(?:自我介绍(?:一?下)?|(?:做|来)(?:一?个)?自我介绍|介绍(?:一?下)?(?:你|你自己|自己))"
    r"|你是谁|你叫什么(?:名字)?|你是(?:什么|哪位|机器人|人工|真人|人|ai)|(?:你)?(?:都)?(?:能|会|可以)(?:帮我)?(?:干|做|帮我做)?(?:什么|啥|哪些事?)"
    r"|你有(?:什么|哪些|啥)(?:功能|用|本事)|有(?:什么|哪些)功能|怎么用|如何使用)(?:呀|啊|呢|吗|嘛|吧)?",
    re.IGNORECASE,
)
_ANSWERS = (
    (_HELLO, texts.RULE_HELLO, texts.RULE_HELLO_UNABLE),
    (_THANKS, texts.RULE_THANKS, texts.RULE_THANKS),
    (_BYE, texts.RULE_BYE, texts.RULE_BYE),
    (_NOD, texts.RULE_NOD, texts.RULE_NOD_UNABLE),
    (_PRAISE, texts.RULE_PRAISE, texts.RULE_PRAISE),
    (_LAUGH, texts.RULE_NOD, texts.RULE_NOD_UNABLE),
)
"""Pattern, the answer to somebody who may have things done here, and to anybody else."""


def small_talk(bare: str, *, able: bool) -> str | None:
    """The answer to a message that is nothing but a greeting, thanks, a goodbye, a nod or praise; else None. ``bare`` is NFKC
    without outer punctuation; ``able``: this person may have things done here."""
    for pattern, to_able, to_others in _ANSWERS:
        if pattern.fullmatch(bare):
            return to_able if able else to_others
    return None


def is_courtesy(bare: str) -> bool:
    """Whether a message is a greeting or thanks: never what to write down, but perhaps what to tell somebody."""
    return _HELLO.fullmatch(bare) is not None or _THANKS.fullmatch(bare) is not None


def asks_who(bare: str) -> bool:
    """Whether somebody asks who or what this is, and what it can do."""
    return _WHO.fullmatch(bare) is not None
