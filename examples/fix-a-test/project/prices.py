"""What a basket of goods costs."""


def total(prices, discount=0):
    """The sum of the prices, less a discount in percent."""
    return sum(prices) * (1 - discount)
