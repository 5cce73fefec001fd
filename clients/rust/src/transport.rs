use std::error::Error;

use bytes::Bytes;
use http::{Request, Response};

/// What carries requests to the service, and its answers back: a [`reqwest::Client`], or something that keeps its connections
/// otherwise, or that signs what an operator asks.
pub trait Transport {
    /// Sends a request, whose URI begins with the client's base URL, and returns the whole answer, whatever its status.
    ///
    /// # Errors
    /// If no answer came, or not all of it. Then nothing is known: the request may have been done.
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
