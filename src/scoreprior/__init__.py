"""Scoreprior."""
