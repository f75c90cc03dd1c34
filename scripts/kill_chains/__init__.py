"""Trainings that are killed and continued, for scripts/torture/kills.py."""
