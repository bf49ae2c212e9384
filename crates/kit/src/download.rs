//! Downloads: the body of a response, written to a file of the workspace.

use crate::{Cx, Fault, Kind, files::Saved, net::Response};

/// Bytes of a download that are written at a time.
const BATCH: usize = 1 << 20;

impl Response {
    /// Writes the body to a file, piece by piece: it takes no more memory than one piece. The file is
    /// replaced once the body is complete; if the connection breaks before, nothing has changed.
    ///
    /// # Errors
    /// Those of [`chunk`](Self::chunk), of [`Files::begin`](crate::Files::begin) and of the disk.
    pub async fn save(&mut self, cx: &Cx, path: &str) -> Result<Saved, Fault> {
        let (to, mut written) = (path.to_owned(), 0_u64);
        let mut file = cx.blocking(move |cx| cx.files().begin(&to)).await?;
        let total = self.length();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let chunk = tokio::select! {
                biased;
                () = cx.cancelled() => return Err(Fault::new(Kind::Cancelled, "the download was stopped")),
                chunk = self.chunk() => chunk?,
            };
            let is_over = chunk.is_none();
            batch.extend_from_slice(chunk.as_deref().unwrap_or_default());
            if is_over || batch.len() >= BATCH {
                written += batch.len() as u64;
                let full = std::mem::take(&mut batch);
                (file, batch) = cx
                    .blocking(move |_| {
                        let (mut file, mut full) = (file, full);
                        file.write(&full)?;
                        full.clear();
                        Ok((file, full))
                    })
                    .await?;
                #[expect(clippy::cast_precision_loss, reason = "it is shown, not counted with")]
                cx.progress(written as f64, total.map(|it| it as f64), &format!("{path}: {written} bytes"));
            }
            if is_over {
                return cx.blocking(move |_| file.finish()).await;
            }
        }
    }
}
