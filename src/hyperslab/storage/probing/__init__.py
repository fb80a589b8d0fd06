"""Probing: what storage does when it is asked, measured by processes that read and write files of
their own there.
"""
