use std::error::Error;

use bytes::Bytes;
use http::{Request, Response};

/// Carries requests to the service and its answers back: a [`reqwest::Client`], or an implementation that pools connections
/// differently or signs an operator's requests.
pub trait Transport {
    /// Sends a request, whose URI begins with the client's base URL. Returns the whole answer, also if its status is an error.
    ///
    /// # Errors
    /// If no complete answer came. The service may have carried out the request.
    fn exchange(
        &self,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<Response<Bytes>, Box<dyn Error + Send + Sync>>> + Send;
}

impl Transport for reqwest::Client {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Box<dyn Error + Send + Sync>> {
        let response = self.execute(request.try_into()?).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let mut answer = Response::new(response.bytes().await?);
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }
}
