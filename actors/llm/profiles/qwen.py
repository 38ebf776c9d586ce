"""Qwen at Alibaba's DashScope."""

from __future__ import annotations

from retinue.actors.llm.profiles.profile import Profile

__all__ = ["QWEN"]

QWEN = Profile(
    name="qwen",
    required_word="auto",
    output_with_tools=False,
    strict=False,
    effort="never",
    quota_codes=frozenset({"insufficient_quota", "arrearage", "allocationquota.freetieronly"}),
    filter_codes=frozenset({"content_filter", "data_inspection_failed", "datainspectionfailed"}),
)
