"""Everything the tools and confirmations say to a person, in one place."""

from __future__ import annotations

# Problems with arguments (tools/schema.py). {name} is the field, {given} what was passed, {expected} what fits.
PROBLEMS = {
    "unknown_field": "没有“{name}”这个参数",
    "missing": "缺少参数“{name}”",
    "type": "“{name}”应为{expected}，收到的是{given}",
    "enum": "“{name}”只能是：{expected}",
    "const": "“{name}”只能是：{expected}",
    "minimum": "“{name}”不能小于 {expected}",
    "maximum": "“{name}”不能大于 {expected}",
    "exclusive_minimum": "“{name}”必须大于 {expected}",
    "exclusive_maximum": "“{name}”必须小于 {expected}",
    "multiple_of": "“{name}”必须是 {expected} 的倍数",
    "min_length": "“{name}”至少要 {expected} 个字",
    "max_length": "“{name}”最多 {expected} 个字",
    "pattern": "“{name}”的格式不对",
    "too_slow": "“{name}”太长，无法核对格式",
    "format": "“{name}”应为{expected}",
    "min_items": "“{name}”至少要 {expected} 项",
    "max_items": "“{name}”最多 {expected} 项",
    "unique_items": "“{name}”里有重复的项",
    "contains": "“{name}”里符合要求的项的数量不对",
    "min_properties": "“{name}”至少要 {expected} 个字段",
    "max_properties": "“{name}”最多 {expected} 个字段",
    "dependency": "填了“{given}”就必须有“{name}”",
    "not_allowed": "“{name}”的值不允许",
    "any_of": "“{name}”不符合任何一种写法",
    "one_of": "“{name}”同时符合多种写法，分不清是哪一种",
    "too_complex": "参数太复杂，没有核对完",
    "not_an_object": "参数应为一个 JSON 对象",
    "bad_json": "参数不是有效的 JSON",
    "duplicate_key": "参数里“{name}”出现了两次",
    "not_finite": "参数里有不是数字的数（NaN 或无穷大）",
    "too_large": "参数太大",
    "too_deep": "参数嵌套太深",
    "never": "“{name}”不能填",
}
SUGGEST_NAME = "是不是“{name}”？"
SUGGEST_VALUES = "可选：{values}"
ARGUMENTS = "参数"
TYPE_WORDS = {
    "string": "文字",
    "integer": "整数",
    "number": "数字",
    "boolean": "是或否",
    "array": "列表",
    "object": "对象",
    "null": "空",
}
FORMAT_WORDS = {
    "date": "日期，如 2026-01-31",
    "time": "时间，如 09:30:00",
    "date-time": "日期和时间，如 2026-01-31T09:30:00+08:00",
    "email": "邮箱地址",
    "ipv4": "IPv4 地址",
    "ipv6": "IPv6 地址",
    "uuid": "UUID",
}
