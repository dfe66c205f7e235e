"""Changes of the requests that schemathesis makes to the engine API."""

import os
import uuid

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    # A key that was used answers with its run, whatever the body is.
    key = (case.headers or {}).get("Idempotency-Key")
    if key and len(key) < 150:
        case.headers["Idempotency-Key"] = f"{key}{uuid.uuid4()}"
    # Without its own key, or under a budget that takes no run, nothing would be tried any more.
    path = case.path_parameters or {}
    if path.get("id") == os.environ["OWN_KEY"]:
        path["id"] = "key_00000000000000000000000000"
    if path.get("scope") == "organization":
        path["scope"] = "workflow:none"
