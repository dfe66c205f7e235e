"""Changes of the requests that schemathesis makes to the organization API, and the check that nothing of another
organization is in any answer."""

import os
import random
import re

import schemathesis

ORGANIZATION = re.compile("org_[0-9a-z]{26}")

choice = random.Random(1)


@schemathesis.hook
def before_call(context, case, kwargs):
    path = case.path_parameters or {}
    # Most requests are about an organization that exists: half about the caller's, a quarter about another one. An ID that
    # breaks the rule of IDs on purpose stays.
    if "/organizations/{id}" in case.operation.path and ORGANIZATION.fullmatch(str(path.get("id"))):
        drawn = choice.random()
        if drawn < 0.5:
            path["id"] = os.environ["OWN_ORG"]
        elif drawn < 0.75:
            path["id"] = os.environ["OTHER_ORG"]
    if "user_id" in path and choice.random() < 0.3:
        path["user_id"] = os.environ["OTHER_USER"]
    # Without its own session, nothing would be tried any more.
    if path.get("id") == os.environ["OWN_SESSION"]:
        path["id"] = "sess_00000000000000000000000000"


@schemathesis.check
def nothing_of_another_organization(context, response, case):
    asked = str(case.path_parameters or {}) + str(case.body)
    text = response.text
    assert "Not To Be Seen" not in text, "the name of another organization"
    assert "elsewhere@example.com" not in text or "elsewhere@example.com" in asked, "an address of another organization"
    for secret in ("OTHER_ORG", "OTHER_USER"):
        if os.environ[secret] not in asked:
            assert os.environ[secret] not in text, f"{secret} is shown"
