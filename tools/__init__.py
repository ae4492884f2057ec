"""The scripts behind `make`: virtual environment, Pulumi CLI, language host, and the driver of up, preview and down.

venv, pulumi_cli and progress run before anything is installed: standard library only. engine and stack know the product
as a folder with a Pulumi.yaml, nothing of its code.
"""
