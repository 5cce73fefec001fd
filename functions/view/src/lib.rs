//! `GET /packets/…` and `GET /me/…`: users view packets and their own data. Also serves API Gateway's `$default` route,
//! so that unknown paths receive this API's own answers.

use std::time::Instant;

use lambda_http::{Body, Request, Response};
use serde::Serialize;
use shared::domain::{PacketId, UserId};
use shared::http::{
    Answer, ClaimRow, Keeping, Page, Problem, Route, SentRow, Totals, ViewBody, WalletBody, before_deadline, caller,
    page, respond, route,
};
use shared::ports::{HotStore, Table};
use shared::service::{ClaimsView, Status, ViewPackets, Viewed};

#[derive(Serialize)]
struct ClaimsBody<'a> {
    claims: Vec<ClaimRow<'a>>,
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    totals: Option<Totals>,
}

#[derive(Serialize)]
struct PacketsBody<'a> {
    packets: Vec<SentRow<'a>>,
    next_cursor: Option<String>,
    totals: Totals,
}

/// Answers a request of the view function.
pub async fn handle<T: Table, H: HotStore>(view: &ViewPackets<T, H>, request: Request) -> Response<Body> {
    let begun = Instant::now();
    let result = before_deadline(&request, answer(view, &request)).await;
    respond(&request, result, begun.elapsed())
}

async fn answer<T: Table, H: HotStore>(view: &ViewPackets<T, H>, request: &Request) -> Result<Answer, Problem> {
    match route(request)? {
        Route::Packet(id) => packet(view, caller(request)?, packet_id(id)?).await,
        Route::PacketClaims(id) => packet_claims(view, request, caller(request)?, packet_id(id)?).await,
        Route::MyWallet => {
            let user = caller(request)?;
            Answer::ok(&WalletBody::new(&user, &view.wallet(&user).await?, view.currency()))
        }
        Route::MyPackets => my_packets(view, request, caller(request)?).await,
        Route::MyClaims => my_claims(view, request, caller(request)?).await,
        Route::Preflight => Ok(Answer::nothing()),
        _ => Err(Problem::route_not_found()),
    }
}

fn packet_id(text: &str) -> Result<PacketId, Problem> {
    text.parse().map_err(|_| Problem::packet_not_found())
}

fn shown<V>(viewed: Viewed<V>) -> Result<V, Problem> {
    match viewed {
        Viewed::Shown(view) => Ok(view),
        Viewed::NotForYou => Err(Problem::not_a_recipient()),
        Viewed::NotFound => Err(Problem::packet_not_found()),
    }
}

async fn packet<T: Table, H: HotStore>(
    view: &ViewPackets<T, H>,
    viewer: UserId,
    id: PacketId,
) -> Result<Answer, Problem> {
    let packet = shown(view.packet(id, &viewer).await?)?;
    let keeping = if packet.status == Status::Settled { Keeping::ForADay } else { Keeping::UntilAsked };
    Ok(Answer::ok(&ViewBody::new(&packet, &viewer))?.to_keep(keeping))
}

async fn packet_claims<T: Table, H: HotStore>(
    view: &ViewPackets<T, H>,
    request: &Request,
    viewer: UserId,
    id: PacketId,
) -> Result<Answer, Problem> {
    let list = format!("claims of packet {id}");
    let page = page(request, &list)?;
    let ClaimsView { claims, is_final } = shown(view.claims(id, &viewer, page.cursor, page.limit).await?)?;
    let answer = Answer::ok(&ClaimsBody {
        claims: claims.rows.iter().map(ClaimRow::of_packet).collect(),
        next_cursor: claims.next.as_ref().map(|next| Page::encode(&list, next)),
        totals: None,
    })?;
    Ok(answer.to_keep(if is_final { Keeping::ForADay } else { Keeping::UntilAsked }))
}

async fn my_packets<T: Table, H: HotStore>(
    view: &ViewPackets<T, H>,
    request: &Request,
    user: UserId,
) -> Result<Answer, Problem> {
    let list = format!("packets of user {user}");
    let page = page(request, &list)?;
    let (slice, wallet) = view.sent(&user, page.cursor, page.limit).await?;
    Answer::ok(&PacketsBody {
        packets: slice.rows.iter().map(SentRow::from).collect(),
        next_cursor: slice.next.as_ref().map(|next| Page::encode(&list, next)),
        totals: Totals { count: wallet.sent_count, amount: wallet.sent_amount },
    })
}

async fn my_claims<T: Table, H: HotStore>(
    view: &ViewPackets<T, H>,
    request: &Request,
    user: UserId,
) -> Result<Answer, Problem> {
    let list = format!("claims of user {user}");
    let page = page(request, &list)?;
    let (slice, wallet) = view.claimed(&user, page.cursor, page.limit).await?;
    Answer::ok(&ClaimsBody {
        claims: slice.rows.iter().map(ClaimRow::of_user).collect(),
        next_cursor: slice.next.as_ref().map(|next| Page::encode(&list, next)),
        totals: Some(Totals { count: wallet.claim_count, amount: wallet.claim_amount }),
    })
}
