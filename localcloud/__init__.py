"""A cloud on this machine: stand-ins for the providers that the program asks for, so that the real engine can run.

Imports nothing of the product: what it refuses, it refuses for reasons of its own.
"""
