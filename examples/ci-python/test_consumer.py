"""The consumer's tests, against a real queue: `python3 -m unittest` starts pullq, and stops it at the end."""

import time
import unittest

from consumer import work_off
from pullq import Pullq


def resize(image, width):
    return f"{image} at {width}"


class ConsumerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pullq = Pullq()

    @classmethod
    def tearDownClass(cls):
        cls.pullq.stop()

    def test_orders_are_resized_in_the_order_in_which_they_came_and_acknowledged(self):
        queue = self.pullq.queue("resizes")
        self.pullq.send(queue, {"image": "cat.png", "width": 100})
        self.pullq.send(queue, {"image": "dog.png", "width": 50})
        self.assertEqual(work_off(queue, resize), (["cat.png at 100", "dog.png at 50"], 0))
        self.assertEqual(self.pullq.backlog(queue), 0)

    def test_an_order_that_fails_comes_again_after_a_second(self):
        queue = self.pullq.queue("resizes-that-fail")
        self.pullq.send(queue, {"image": "cat.png", "width": 100})

        def broken(image, width):
            raise MemoryError

        self.assertEqual(work_off(queue, broken), ([], 1))
        self.assertEqual(work_off(queue, resize), ([], 0), "not at once")
        time.sleep(1.1)
        self.assertEqual(work_off(queue, resize), (["cat.png at 100"], 0))

    def test_an_empty_queue_is_no_error(self):
        self.assertEqual(work_off(self.pullq.queue("nothing-to-do"), resize), ([], 0))


if __name__ == "__main__":
    unittest.main()
