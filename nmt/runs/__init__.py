"""Trained runs and their folders: train, load, translate, score, compare."""
