"""What ``yizhan models check`` says of a route: what it can do, and what to do where it cannot."""

from __future__ import annotations

from agent.llm.check import RouteCheck
from gateway import model_texts as texts


def lines(check: RouteCheck, url: str) -> list[str]:
    """The report of one route, a heading and what was found."""
    head = texts.HEAD.format(
        name=check.name,
        state=texts.USABLE[check.usable],
        model=check.model,
        url=url,
        where=texts.LOCAL if check.local else texts.EXTERNAL,
        purposes="、".join(check.purposes),
    )
    rows = list(texts.REACHES)
    if set(check.purposes) != {"transcribe"}:
        rows += texts.TALKS
    if check.transcribes is not None:
        rows.append(texts.TRANSCRIBES)
    found = ["  " + "  ".join(rows).format(**_values(check))]
    failed = [f"{probe}：{code}{_status(check, probe)}" for probe, code in check.trouble.items() if _matters(check, probe)]
    if failed:
        found.append(texts.FAILED + "，".join(failed))
    return [head, *found, *(texts.FIX.format(fix=fix) for fix in fixes(check, url))]


def fixes(check: RouteCheck, url: str) -> list[str]:
    """What to do, each once, the most basic first."""
    others = texts.OTHERS.format(names="、".join(check.others)) if check.others else texts.ASK_IT
    told: list[str] = []
    for probe, code in check.trouble.items():
        if _matters(check, probe):
            told.append(texts.FIXES.get(code, texts.FIXES["model_refused"]).format(url=url, model=check.model, others=others))
    if check.knows_model is False and "model_no_model" not in check.trouble.values():
        told.append(texts.FIXES["model_no_model"].format(url=url, model=check.model, others=others))
    if check.calls_tools is False and "tools" not in check.trouble:
        told.append(texts.NO_CALL)
    if check.streams is False and "stream" not in check.trouble:
        told.append(texts.NO_STREAM)
    if check.fits is False:
        told.append(texts.TOO_BIG.format(tokens=check.context_tokens, chars=check.context_chars))
    return list(dict.fromkeys(told))


def _values(check: RouteCheck) -> dict[str, str]:
    """What was found, as it is shown; - where it was not tried or the endpoint does not tell."""
    signs = ("reachable", "knows_model", "answers", "streams", "calls_tools", "transcribes")
    latency, tokens = check.latency_ms, check.context_tokens
    return {
        **{name: texts.SIGNS[getattr(check, name)] for name in signs},
        "latency": f"{latency} ms" if latency is not None else texts.SIGNS[None],
        "context": texts.TOKENS.format(tokens=tokens) if tokens is not None else texts.SIGNS[None],
    }


def _status(check: RouteCheck, probe: str) -> str:
    status = check.statuses.get(probe)
    return texts.STATUS.format(status=status) if status is not None else ""


def _matters(check: RouteCheck, probe: str) -> bool:
    """A list many endpoints do not offer is no trouble while they answer; an unheard silence is none either."""
    if probe == "list":
        return not check.usable and "chat" not in check.trouble and "transcribe" not in check.trouble
    return probe != "transcribe" or check.transcribes is False
