"""Every table of the product in one metadata; the only place that imports all of them."""

from __future__ import annotations

from sqlalchemy import MetaData
from sqlmodel import SQLModel

import agent.models
import gateway.models
import memory.models
import tools.models

__all__ = ["METADATA"]

METADATA: MetaData = SQLModel.metadata
_OWNERS = (memory.models, gateway.models, agent.models, tools.models)
