use std::error::Error;

use bytes::Bytes;
use http::{Request, Response};

/// Carries requests to the service and its answers back: a [`reqwest::Client`], or an implementation that pools connections
/// differently or signs an operator's requests.
///
/// An app's own tests can do without a service:
///
/// ```
/// use std::error::Error;
///
/// use bytes::Bytes;
/// use hongbao_client::{Caller, Client, GrabResult, Transport};
/// use http::{Request, Response};
///
/// struct SoldOut;
///
/// impl Transport for SoldOut {
///     async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Box<dyn Error + Send + Sync>> {
///         assert_eq!(request.uri().path(), "/packets/38FS4S83HF3Y07WMYNH727QYT0/grab");
///         Ok(Response::new(r#"{"outcome":"sold_out","packet_id":"38FS4S83HF3Y07WMYNH727QYT0"}"#.into()))
///     }
/// }
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), hongbao_client::Error> {
///     let bob = Client::new(SoldOut, "http://hongbao.test", Caller::Local("bob".to_owned()));
///     let outcome = bob.grab("38FS4S83HF3Y07WMYNH727QYT0", None).await?;
///     assert!(matches!(outcome, GrabResult::SoldOut { .. }));
///     Ok(())
/// }
/// ```
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
