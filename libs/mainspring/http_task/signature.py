"""Signing a request so that its receiver can trust it: the Standard Webhooks specification, version 1.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import hashlib
import hmac


def signed(key: bytes, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a signed request: the HMAC-SHA256 of ``id.timestamp.body``, in base64."""
    content = f"{message_id}.{timestamp}.".encode() + body
    digest = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{digest}"}
