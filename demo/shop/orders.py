"""Orders, and when their money goes back."""

from dataclasses import dataclass
from datetime import date, timedelta

RETURN_DAYS = 30


@dataclass(frozen=True)
class Order:
    """An order that was paid for."""

    number: str
    paid_on: date
    cents: int


def refundable_until(order: Order) -> date:
    """Return the last day on which an order may be returned."""
    return order.paid_on + timedelta(days=RETURN_DAYS)


def refund(order: Order, today: date) -> int:
    """Return the cents to pay back. Raises: ValueError for a late return."""
    if today > refundable_until(order):
        raise ValueError(f"order {order.number} is past its return date")
    return order.cents
