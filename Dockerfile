# The local stack, for machines without Rust. compose.yaml runs it with a Valkey of its own; by itself it brings Debian's.
#
#   docker build --tag hongbao .
#   docker run --rm --init --publish 127.0.0.1:3000:3000 --volume hongbao:/data hongbao
#   docker run --rm --init --publish 127.0.0.1:3000:3000 hongbao sandbox --listen 0.0.0.0 --seed 42     for tests
#
# Any caller is the operator. Publish it to this machine only, as above, and under the same number: the stack refuses
# requests for another host or port.

# The toolchain of rust-toolchain.toml; a test compares both.
ARG RUST_IMAGE=rust:1.95.0-slim-trixie
ARG BASE_IMAGE=debian:13.2-slim

FROM ${RUST_IMAGE} AS build
WORKDIR /src
COPY . .
# The next build finds the packages and what was compiled before.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --package hongbao --package admin && cp target/release/hongbao target/release/hongbao-admin /

FROM ${BASE_IMAGE} AS run
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends ca-certificates curl valkey-server \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --user-group --uid 10001 --no-create-home hongbao \
    && install --directory --owner hongbao --group hongbao /data
COPY --from=build /hongbao /hongbao-admin /usr/local/bin/
USER hongbao
VOLUME /data
# The data folder is .local in it.
WORKDIR /data
EXPOSE 3000
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s \
    CMD ["curl", "--fail", "--silent", "--show-error", "http://127.0.0.1:3000/_local/health"]
ENTRYPOINT ["hongbao"]
# Inside the container no other address leads out; what is published decides who reaches it.
CMD ["dev", "--listen", "0.0.0.0"]
