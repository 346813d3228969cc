//! Connections to other executors that are used again. Ballista's own pool is private to its executor.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ballista_core::client::BallistaClient;
use ballista_core::client_pool::{BallistaClientPool, PooledClient};
use ballista_core::error::Result;
use ballista_core::extension::BallistaConfigGrpcEndpoint;
use ballista_core::utils::GrpcClientConfig;

/// Host, port and settings.
type Endpoint = (String, u16, GrpcClientConfig);

/// Idle connections by their endpoint. Clones are handles of the same.
#[derive(Clone)]
pub(crate) struct Clients {
    idle: Arc<Mutex<HashMap<Endpoint, Vec<Idle>>>>,
    timeout: Duration,
}

struct Idle {
    client: BallistaClient,
    since: Instant,
}

impl Clients {
    /// Connections are closed when they have been idle for `timeout`, at the next request.
    pub(crate) fn new(timeout: Duration) -> Clients {
        Clients { idle: Arc::default(), timeout }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Endpoint, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close_idle(&self) {
        let timeout = self.timeout;
        self.lock().retain(|_, clients| {
            clients.retain(|idle| idle.since.elapsed() < timeout);
            !clients.is_empty()
        });
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Clients").finish_non_exhaustive()
    }
}

#[async_trait]
impl BallistaClientPool for Clients {
    async fn acquire(
        &self,
        host: &str,
        port: u16,
        config: &GrpcClientConfig,
        endpoint: Option<Arc<BallistaConfigGrpcEndpoint>>,
    ) -> Result<PooledClient> {
        self.close_idle();
        let key = (host.to_owned(), port, config.clone());
        let known = self.lock().get_mut(&key).and_then(Vec::pop);
        let client = match known {
            Some(idle) => idle.client,
            None => {
                BallistaClient::try_new(
                    host,
                    port,
                    config.max_message_size,
                    config.use_tls,
                    endpoint,
                    config.io_retries_times,
                    config.io_retry_wait_time_ms,
                    config.initial_connection_window_size,
                    config.initial_stream_window_size,
                )
                .await?
            }
        };
        let pool = self.clone();
        let put_back = move |client| {
            pool.lock().entry(key).or_default().push(Idle { client, since: Instant::now() });
        };
        Ok(PooledClient::new(client, Box::new(put_back)))
    }

    async fn evict_idle(&self) {
        self.close_idle();
    }
}
