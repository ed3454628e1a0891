"""The ``http`` task: a job whose handler is a URL, so that a service in any language can do the work.

mainspring worker mainspring.http_task
mainspring submit http --payload '{"url": "https://example.com/charge", "body": {"cents": 990}}'
"""

from mainspring.http_task.call import http

__all__ = ["http"]
