"""The command as a user gives it."""

from click.testing import CliRunner, Result

from holdfast.cli.plan import plan
from holdfast.errors import HoldfastError


def run(*arguments: object) -> Result:
    return CliRunner().invoke(plan, [str(argument) for argument in arguments])


def fails(*arguments: object) -> HoldfastError:
    result = run(*arguments)
    assert isinstance(result.exception, HoldfastError), result.output
    return result.exception
