//! `GET /packets/…` and `GET /me/…`: users view packets and their own data. `GET /users/…` and `GET /operator/packets…`: the
//! operator does it for them, and views any packet. Also serves API Gateway's `$default` route, so that unknown paths receive this
//! API's own answers.

use std::time::Instant;

use futures::TryStreamExt;
use lambda_http::http::header::ACCEPT;
use lambda_http::{Body, Request, Response};
use shared::domain::{PacketId, Selection, Timestamp, UserId};
use shared::http::{
    Answer, Asked, ClaimRow, Code, Fields, Keeping, ListBody, MovementRow, MovementsAsked, Operation, PacketBody,
    PacketsAsked, Page, Problem, ReferenceBody, ReportedRow, ShareBody, Viewer, WalletBody, admit_caller, asked,
    before_deadline, cursor, movements_asked, operator, optional, page, page_with, respond, selection, selection_of,
    user_of, voucher,
};
use shared::ports::{HotStore, Table};
use shared::service::{
    Bounded, CampaignReports, ClaimsAsked, ClaimsView, Order, PacketView, SheetError, ViewPackets, Voucher, Wallets,
    sheet_name, write_sheet,
};

/// Answers a request of the view function.
pub async fn handle<T: Table, H: HotStore>(
    packets: &ViewPackets<T, H>,
    reports: &CampaignReports<T>,
    wallets: &Wallets<T>,
    request: Request,
) -> Response<Body> {
    let begun = Instant::now();
    let result = before_deadline(&request, answer(packets, reports, wallets, &request)).await;
    respond(&request, result, begun.elapsed())
}

async fn answer<T: Table, H: HotStore>(
    packets: &ViewPackets<T, H>,
    reports: &CampaignReports<T>,
    wallets: &Wallets<T>,
    request: &Request,
) -> Result<Answer, Problem> {
    let (asked, currency) = (asked(request)?, wallets.currency());
    match asked.operation {
        Operation::GetPacket | Operation::GetPacketForUser => {
            let viewer = user_of(request, &asked)?;
            let view = packets.packet(packet_id(&asked)?, &viewer, &voucher(request, &asked)?).await?;
            packet(&view, Viewer::User(&viewer), packets.now())
        }
        Operation::GetAnyPacket => {
            operator(request)?;
            let found = packets.any_packet(packet_id(&asked)?).await?;
            packet(&found.ok_or_else(Problem::packet_not_found)?, Viewer::Operator, packets.now())
        }
        Operation::FindPackets => {
            operator(request)?;
            found(packets, request).await
        }
        Operation::ListPacketClaims | Operation::ListPacketClaimsForUser => {
            let viewer = user_of(request, &asked)?;
            packet_claims(packets, request, &asked, Some(&viewer)).await
        }
        Operation::ListAnyPacketClaims => {
            operator(request)?;
            packet_claims(packets, request, &asked, None).await
        }
        Operation::GetShare => {
            operator(request)?;
            let user = user_of(request, &asked)?;
            let found = packets.share(packet_id(&asked)?, &user).await?;
            Answer::ok(&ShareBody::new(&found.ok_or_else(Problem::packet_not_found)?, &user))
        }
        Operation::ReportClaims => {
            operator(request)?;
            let of = selection(request)?;
            if wants_sheet(request) {
                return sheet(reports, request, &of, currency).await;
            }
            reported(reports, request, &of).await
        }
        Operation::GetReference => {
            operator(request)?;
            let (reference, of) = selection_of(request, asked.id)?;
            let totals = reports.totals(&of).await?;
            Answer::ok(&ReferenceBody::new(&reference, &of.sender, currency, &totals, packets.now()))
        }
        Operation::GetMyWallet => {
            let user = admit_caller(request)?;
            Answer::ok(&WalletBody::new(&user, &wallets.wallet(&user).await?, currency))
        }
        Operation::ListMyMovements => movements_of(wallets, request, admit_caller(request)?).await,
        Operation::ListMyPackets | Operation::ListPacketsOfUser => {
            packets_of(packets, request, user_of(request, &asked)?).await
        }
        Operation::ListMyClaims | Operation::ListClaimsOfUser => {
            claims_of(packets, request, user_of(request, &asked)?, currency).await
        }
        Operation::Preflight => Ok(Answer::nothing()),
        _ => Err(Problem::route_not_found()),
    }
}

fn packet_id(asked: &Asked) -> Result<PacketId, Problem> {
    asked.packet_id.parse().map_err(|_| Problem::packet_not_found())
}

fn packet(view: &PacketView, viewer: Viewer, now: Timestamp) -> Result<Answer, Problem> {
    // The next round of a campaign may come, and ends.
    let is_for_ever = view.is_settled && view.terms.limit.is_none();
    let keeping = if is_for_ever { Keeping::ForADay } else { Keeping::UntilAsked };
    Ok(Answer::ok_at(&PacketBody::single(view, viewer), now)?.to_keep(keeping))
}

async fn packet_claims<T: Table, H: HotStore>(
    packets: &ViewPackets<T, H>,
    request: &Request,
    asked: &Asked<'_>,
    viewer: Option<&UserId>,
) -> Result<Answer, Problem> {
    let id = packet_id(asked)?;
    let mut fields = Fields::default();
    let newest = |text: &str| match text {
        "slip" => Some(false),
        "newest" => Some(true),
        _ => None,
    };
    let order = optional(&mut fields, request, "order", "must be slip or newest", newest);
    let of_newest = format!("claims of packet {id}, the newest first");
    let after = cursor(&mut fields, request, "after", &of_newest);
    if order == Some(false) && after.is_some() {
        fields.check("after", None::<()>, "needs order=newest");
    }
    let (order, list) = if order.unwrap_or_else(|| after.is_some()) {
        (Order::Newest { after }, of_newest)
    } else {
        (Order::Slip, format!("claims of packet {id}"))
    };
    let Page { limit, cursor } = page_with(fields, request, &list)?;
    let voucher = viewer.map_or(Ok(Voucher::Operator), |_| voucher(request, asked))?;
    let piece = ClaimsAsked { order, cursor, limit };
    let ClaimsView { terms, claims, newest, is_decided } = packets.claims(id, viewer, &voucher, &piece).await?;
    let mut body = ListBody::new("claims", &list, &claims, |claim| ClaimRow::of_packet(claim, &terms.currency));
    if matches!(order, Order::Newest { .. }) {
        body = body.with_newest(newest.as_ref().map(|place| Page::encode(&list, place)));
    }
    Ok(Answer::ok(&body)?.to_keep(if is_decided { Keeping::ForADay } else { Keeping::UntilAsked }))
}

async fn packets_of<T: Table, H: HotStore>(
    packets: &ViewPackets<T, H>,
    request: &Request,
    user: UserId,
) -> Result<Answer, Problem> {
    let list = format!("packets of user {user}");
    let page = page(request, &list)?;
    let (slice, wallet) = packets.sent(&user, page.cursor, page.limit).await?;
    let body = ListBody::new("packets", &list, &slice, |packet| PacketBody::listed(packet, Viewer::User(&user)));
    Answer::ok(&body.with_totals(wallet.sent_count, wallet.sent_amount))
}

/// The packets with a reference, of a sender, or with a status.
async fn found<T: Table, H: HotStore>(packets: &ViewPackets<T, H>, request: &Request) -> Result<Answer, Problem> {
    let (asked, list) = PacketsAsked::of(request)?;
    let row = |packet| PacketBody::listed(packet, Viewer::Operator);
    match asked {
        PacketsAsked::Referenced(reference) => {
            let page = page(request, &list)?;
            let slice = packets.referenced(&reference, page.cursor, page.limit).await?;
            Answer::ok(&ListBody::new("packets", &list, &slice, row))
        }
        PacketsAsked::Sent(asked) => {
            let page = page(request, &list)?;
            let slice = packets.sent_within(&asked, page.cursor, page.limit).await?;
            Answer::ok(&ListBody::new("packets", &list, &slice, row))
        }
        PacketsAsked::Unsettled(status) => {
            let page = page(request, &list)?;
            let slice = packets.unsettled(status, page.cursor, page.limit).await?;
            Answer::ok(&ListBody::new("packets", &list, &slice, row))
        }
    }
}

async fn claims_of<T: Table, H: HotStore>(
    packets: &ViewPackets<T, H>,
    request: &Request,
    user: UserId,
    currency: &str,
) -> Result<Answer, Problem> {
    let list = format!("claims of user {user}");
    let page = page(request, &list)?;
    let (slice, wallet) = packets.claimed(&user, page.cursor, page.limit).await?;
    let body = ListBody::new("claims", &list, &slice, |record| ClaimRow::of_user(record, currency));
    Answer::ok(&body.with_totals(wallet.claim_count, wallet.claim_amount))
}

async fn movements_of<T: Table>(wallets: &Wallets<T>, request: &Request, user: UserId) -> Result<Answer, Problem> {
    let MovementsAsked { filter, page, list } = movements_asked(request, &user)?;
    let slice = wallets.movements(&user, filter, page.cursor, page.limit).await?;
    let row = |movement| MovementRow::new(movement, Viewer::User(&user));
    Answer::ok(&ListBody::new("movements", &list, &slice, row))
}

/// A page of all claims of a selection.
async fn reported<T: Table>(
    reports: &CampaignReports<T>,
    request: &Request,
    of: &Selection,
) -> Result<Answer, Problem> {
    let Selection { sender, reference, limit_key } = of;
    let list = format!("claims of sender {sender}, reference {reference:?}, limit {limit_key:?}");
    let page = page(request, &list)?;
    let slice = reports.claims(of, page.cursor, page.limit).await?;
    Answer::ok(&ListBody::new("claims", &list, &slice, ReportedRow::new))
}

/// The most bytes of a file. An answer of a function has at most six megabytes, in which each quote of the file takes two.
const SHEET_BYTES_MAX: usize = 3_000_000;

/// All claims of a selection, as a file.
async fn sheet<T: Table>(
    reports: &CampaignReports<T>,
    request: &Request,
    of: &Selection,
    currency: &str,
) -> Result<Answer, Problem> {
    let mut fields = Fields::default();
    for name in ["limit", "cursor"] {
        optional(&mut fields, request, name, "is not for a file, which has all claims", |_| None::<()>);
    }
    fields.finish()?;
    let packets: Vec<_> = reports.packets(of, None).try_collect().await?;
    // Without a packet the reference may be wrong.
    let is_provisional = packets.is_empty() || packets.iter().any(|packet| packet.settled.is_none());
    let (file, claims) = (Bounded::new(SHEET_BYTES_MAX), reports.claims_of(&packets));
    match write_sheet(file, claims, currency, reports.day_zone(), is_provisional).await {
        Ok(sheet) => Ok(Answer::sheet(&sheet_name(of, is_provisional), sheet.into_bytes())),
        Err(SheetError::Read(failure)) => Err(failure.into()),
        Err(SheetError::TooLarge) => {
            let field = if of.reference.is_some() { "reference" } else { "limit_key" };
            Err(Problem::field(field, "makes a file that is too large: read pages, or run hongbao-admin report"))
        }
        Err(SheetError::Write(_)) => Err(Problem::new(Code::Internal, "Something went wrong on our side.")),
    }
}

/// Whether a client accepts CSV, and no page before it.
fn wants_sheet(request: &Request) -> bool {
    let accepted = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let mut kinds =
        accepted.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    kinds.find(|kind| ["text/csv", "application/json", "*/*"].contains(&&**kind)).is_some_and(|kind| kind == "text/csv")
}
