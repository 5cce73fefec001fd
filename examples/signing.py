"""Signs the operator's requests with AWS Signature Version 4: pip install botocore

The keys are those that AWS's own tools would find, and are renewed as theirs are. AWS_REGION is the region of the API.

The shop:                operator = Client(base_url=URL, httpx_args=HOOKS | {"auth": signing.signed})
The bot and the worker:  headers | signing.headers(method, url, data)
"""
import os

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.session import Session

credentials = Session().get_credentials()


def headers(method, url, body=None):
    """Returns the headers that sign a request, whose path and query are encoded. It signs no others: proxies change some."""
    request = AWSRequest(method, url, data=body)
    SigV4Auth(credentials.get_frozen_credentials(), "execute-api", os.environ["AWS_REGION"]).add_auth(request)
    return dict(request.headers.items())


def signed(request):
    """Signs a request of httpx."""
    request.headers.update(headers(request.method, str(request.url), request.content))
    return request
