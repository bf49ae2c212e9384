import unittest

from prices import total


class Total(unittest.TestCase):
    def test_without_a_discount_it_is_the_sum(self):
        self.assertEqual(total([10, 20]), 30)

    def test_a_discount_is_in_percent(self):
        self.assertEqual(total([10, 20], discount=10), 27)


if __name__ == "__main__":
    unittest.main()
