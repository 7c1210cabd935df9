import { request } from 'undici';

const base64 = (text: string): string => Buffer.from(text).toString('base64');

async function call(
  etcd: string,
  path: string,
  body: object,
): Promise<{ readonly header?: { readonly revision?: string } }> {
  const { statusCode, body: answer } = await request(`${etcd}/v3/kv/${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
  });
  if (statusCode !== 200) throw new Error(`etcd answered ${statusCode}: ${await answer.text()}`);
  return (await answer.json()) as { header?: { revision?: string } };
}

/**
 * Does by etcd's gateway what an API server does every five minutes: forgets all versions but the
 * latest, and says so to its caches.
 */
export async function forgetHistory(etcd: string): Promise<void> {
  const { header } = await call(etcd, 'range', { key: base64('compact_rev_key') });
  const revision = header?.revision ?? '0';
  await call(etcd, 'put', { key: base64('compact_rev_key'), value: base64(revision) });
  await call(etcd, 'compaction', { revision });
}
