"""Takes out of a model's words what claims that a write is done while it still waits for its person (overview §7.14)."""

from __future__ import annotations

import re

_DID = (
    "(?:创?建|新建|设置?|添加|安排|完成|执行|发送|发出|发给|发|提交|取消|删除?|更新|修改|改|重启|部署|通知|转告|告诉|告知|"
    "办|做|处理|搞定|写入?|记录?|保存)"
)
_CLAIM = re.compile(
    rf"^(?![^,，。]*(?:没(?!问题)|未|不会|不能))(?:好的?|好嘞|嗯|可以|没问题|收到|明白)?[,，!！。、\s]*(?:我|系统)?(?:"
    rf"(?:已经?|刚刚?)(?:成功)?(?:(?:为|帮|给|替|按)[^,，。]{{0,8}})?(?:把|将)?[^,，。]{{0,20}}?{_DID}"
    rf"|[^,，。]{{0,20}}(?:{_DID}(?:好了?|完了?|成功了?|完成了?|妥了?)|搞定了?|成功))(?![^,，。]*(?:吗|没有|没|未|不|需要|之前|后再))"
)
_SENTENCE = re.compile(r"[^。！!；;\n]*[。！!；;\n]?")


def without_claims(text: str) -> str:
    """The text without sentences that say it is done; used only while something said in this turn still waits."""
    return "".join(part for part in _SENTENCE.findall(text) if not _CLAIM.match(part.strip(" *-#>"))).strip()
