"""Campaigns: simulator seeds spread over Spark executors, their traces checked by one job."""

from antiphon.spark.campaign.job import Campaign, Result, run_campaign

__all__ = ["Campaign", "Result", "run_campaign"]
