"""What the doctor found: findings with their fix, and the report as text for a terminal or a chat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gateway import operator_texts as texts

Level = Literal["ok", "info", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. ``about`` is an account id or 系统; ``check`` is stable, for scripts and tests."""

    about: str
    check: str
    level: Level
    text: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, in the order they were made."""

    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """True when nothing failed; warnings do not count."""
        return not any(finding.level == "fail" for finding in self.findings)

    def count(self, level: Level) -> int:
        """How many findings have this level."""
        return sum(1 for finding in self.findings if finding.level == level)

    @property
    def title(self) -> str:
        """The result in one sentence."""
        if self.healthy and not self.count("warn"):
            return texts.TITLE_GOOD
        return texts.TITLE_BAD.format(fail=self.count("fail"), warn=self.count("warn"))

    def for_terminal(self) -> str:
        """Every finding, grouped by what it is about, fixes below the line they belong to."""
        lines: list[str] = []
        about = ""
        for finding in self.findings:
            if finding.about != about:
                about = finding.about
                lines.append(about)
            lines.append(f"  {texts.MARKS[finding.level]} {finding.text}")
            if finding.fix:
                lines.append(f"      {texts.FIX.format(fix=finding.fix)}")
        return "\n".join([*lines, "", self.title])

    def for_chat(self) -> str:
        """Problems and warnings with their fix, the rest as a number: short enough to read on a phone."""
        lines = [self.title]
        for finding in sorted(self.findings, key=lambda item: item.level != "fail"):
            if finding.level in ("fail", "warn"):
                lines.append(f"{texts.MARKS[finding.level]} {finding.about}：{finding.text}")
                if finding.fix:
                    lines.append(f"  {texts.FIX.format(fix=finding.fix)}")
        rest = self.count("ok") + self.count("info")
        return "\n".join([*lines, texts.REST_GOOD.format(count=rest)] if rest and len(lines) > 1 else lines)

    def as_data(self) -> list[dict[str, str]]:
        """The findings as data, for ``--json``."""
        return [
            {"about": item.about, "check": item.check, "level": item.level, "text": item.text, "fix": item.fix}
            for item in self.findings
        ]
