import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod/mini';
import { parseJson } from './json.ts';
import { needlesOf, noNeedles, type Needles } from './mask.ts';
import { storedMcpServers, type McpServer } from './mcp-servers.ts';
import type { Meta } from './meta.ts';
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

const ivBytes = 12;
const tagBytes = 16;

/** Encrypts texts that must not be stored in clear (AES-256-GCM). */
export class SecretBox {
  readonly #key: Buffer;

  constructor(secretKey: string) {
    this.#key = Buffer.from(hkdfSync('sha256', secretKey, '', 'reference-agent/secrets', 32));
  }

  seal(text: string): string {
    const iv = randomBytes(ivBytes);
    const cipher = createCipheriv('aes-256-gcm', this.#key, iv);
    return Buffer.concat([
      iv,
      cipher.update(text, 'utf8'),
      cipher.final(),
      cipher.getAuthTag(),
    ]).toString('base64');
  }

  /** Decrypts a text; undefined if another key sealed it. */
  open(sealed: string): string | undefined {
    const bytes = Buffer.from(sealed, 'base64');
    try {
      const decipher = createDecipheriv('aes-256-gcm', this.#key, bytes.subarray(0, ivBytes));
      decipher.setAuthTag(bytes.subarray(-tagBytes));
      return Buffer.concat([
        decipher.update(bytes.subarray(ivBytes, -tagBytes)),
        decipher.final(),
      ]).toString('utf8');
    } catch {
      return undefined;
    }
  }
}

export const maxSecrets = 1000;
/** Maximum duration of one attempt to read a secret. */
const lookupTimeoutMs = 10_000;
const lookupAttempts = 2;
const retryDelayMs = 200;
const maxLookupBytes = 64 * 1024;
/** Maximum bytes of a variable, below the kernel's limit of one string (128 KiB). */
const maxVariableBytes = 120 * 1024;
/** Maximum bytes of all secrets in the environment of an agent's process. */
const maxEnvironmentBytes = 1024 * 1024;
/** Maximum number of replaced values of a conversation that are masked like current ones. */
const maxFormerValues = 256;

/** A secret in the format of the OpenHands protocol. */
export type Secret =
  | { readonly kind?: 'StaticSecret' | null | undefined; readonly value: string }
  | {
      readonly kind: 'LookupSecret';
      readonly url: string;
      readonly headers?: Readonly<Record<string, string>> | null | undefined;
    };

const lookup = z.object({ url: z.string(), headers: z.record(z.string(), z.string()) });
type Lookup = z.output<typeof lookup>;

type SealedSecrets = Pick<Meta, 'sealedSecrets' | 'sealedLookups'>;

/** Returns a conversation's stored secrets with those of a request added or replaced. */
export function withSecrets(
  { sealedSecrets, sealedLookups }: SealedSecrets,
  secrets: Readonly<Record<string, Secret>>,
  box: Pick<SecretBox, 'seal'>,
): SealedSecrets {
  const values = new Map(Object.entries(sealedSecrets));
  const lookups = new Map(Object.entries(sealedLookups ?? {}));
  for (const [name, secret] of Object.entries(secrets)) {
    values.delete(name);
    lookups.delete(name);
    if (!('url' in secret)) values.set(name, box.seal(secret.value));
    else {
      const { url, headers } = secret;
      lookups.set(name, box.seal(JSON.stringify({ url, headers: headers ?? {} })));
    }
  }
  return {
    sealedSecrets: Object.fromEntries(values),
    sealedLookups: lookups.size === 0 ? undefined : Object.fromEntries(lookups),
  };
}

export const countOf = ({ sealedSecrets, sealedLookups }: SealedSecrets): number =>
  Object.keys(sealedSecrets).length + Object.keys(sealedLookups ?? {}).length;

/** Values by name, and the names of unreadable secrets. */
export interface ReadSecrets {
  readonly values: ReadonlyMap<string, string>;
  readonly unread: readonly string[];
}

interface Known {
  readonly sealedSecrets: Meta['sealedSecrets'];
  readonly sealedMcpServers: Meta['sealedMcpServers'];
  readonly values: ReadonlyMap<string, string>;
  /** All values to mask: current, replaced, and read from other servers; the oldest come first. */
  readonly former: Set<string>;
  needles: Needles;
}

/**
 * Reads the secrets of conversations, and knows which values to mask. Values that other servers
 * return are never stored. A conversation without secrets needs no memory.
 */
export class Secrets {
  readonly #box: Pick<SecretBox, 'open'>;
  /** Known values by id of the conversation. */
  readonly #known = new Map<string, Known>();

  constructor(box: Pick<SecretBox, 'open'>) {
    this.#box = box;
  }

  /** Returns the texts to mask: all known values, and the secrets of MCP servers. */
  needlesOf(meta: Meta): Needles {
    return this.#knownOf(meta)?.needles ?? noNeedles;
  }

  /**
   * Reads the wanted secrets. Values on other servers are read in parallel. Rejects only with the
   * signal's reason. `totalMs` is the maximum duration of all attempts together.
   */
  async read(
    meta: Meta,
    isWanted: (name: string) => boolean,
    { signal, totalMs }: { readonly signal: AbortSignal; readonly totalMs?: number },
  ): Promise<ReadSecrets> {
    const values = new Map<string, string>();
    for (const [name, value] of this.#knownOf(meta)?.values ?? [])
      if (isWanted(name)) values.set(name, value);
    const wanted = Object.entries(meta.sealedLookups ?? {}).filter(([name]) => isWanted(name));
    if (wanted.length === 0) return { values, unread: [] };
    const limit =
      totalMs === undefined ? signal : AbortSignal.any([signal, AbortSignal.timeout(totalMs)]);
    const unread: string[] = [];
    await Promise.all(
      wanted.map(async ([name, sealed]) => {
        const value = await valueOf(this.#lookupOf(sealed), limit);
        if (value === undefined) unread.push(name);
        else values.set(name, value);
      }),
    );
    // The values are masked even if the run is interrupted.
    this.#remember(meta, [...values.values()]);
    signal.throwIfAborted();
    return { values, unread };
  }

  forget({ id }: Pick<Meta, 'id'>): void {
    this.#known.delete(id);
  }

  #lookupOf(sealed: string): Lookup | undefined {
    return lookup.safeParse(parseJson(this.#box.open(sealed) ?? '')).data;
  }

  #knownOf(meta: Meta): Known | undefined {
    const { id, sealedSecrets, sealedMcpServers } = meta;
    const before = this.#known.get(id);
    if (before?.sealedSecrets === sealedSecrets && before.sealedMcpServers === sealedMcpServers)
      return before;
    const isEmpty = countOf(meta) === 0 && sealedMcpServers === undefined;
    if (before === undefined && isEmpty) return undefined;
    const values = new Map(
      Object.entries(sealedSecrets).map(([name, text]) => [name, this.#box.open(text) ?? '']),
    );
    const servers =
      sealedMcpServers === undefined ? [] : storedMcpServers(this.#box.open(sealedMcpServers));
    const former = new Set(before?.former);
    const current = [...values.values(), ...secretsOf(servers)];
    for (const value of current) former.add(value);
    forgetOldest(former, new Set(current));
    const known = { sealedSecrets, sealedMcpServers, values, former, needles: needlesOf(former) };
    this.#known.set(id, known);
    return known;
  }

  /** Masks values from now on. Beyond `maxFormerValues`, drops the least recently read values. */
  #remember(meta: Meta, values: readonly string[]): void {
    const known = this.#knownOf(meta);
    if (known === undefined) return;
    const { former } = known;
    const areKnown = values.every((value) => former.has(value));
    for (const value of values) {
      former.delete(value);
      former.add(value);
    }
    if (areKnown) return;
    forgetOldest(former, new Set([...known.values.values(), ...values]));
    known.needles = needlesOf(former);
  }
}

/** Deletes the oldest values that are not current, beyond `maxFormerValues`. */
function forgetOldest(former: Set<string>, current: ReadonlySet<string>): void {
  for (const value of former) {
    if (former.size <= maxFormerValues + current.size) return;
    if (!current.has(value)) former.delete(value);
  }
}

const secretName = /auth|cookie|credential|key|passw|secret|session|token/i;

/** Returns the values of headers and variables whose names indicate secrets. */
const secretsOf = (servers: readonly McpServer[]): readonly string[] =>
  servers
    .flatMap((server) => ('type' in server ? server.headers : server.env))
    .filter(({ name }) => secretName.test(name))
    // The token of an Authorization header is secret without its scheme, too.
    .flatMap(({ value }) => [value, value.replace(/^(Basic|Bearer|Token) +/i, '')]);

/** Reads a secret from another server; undefined after two failures or the timeout. */
async function valueOf(
  secret: Lookup | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (secret === undefined) return undefined;
  for (let attempt = 1; !signal.aborted; attempt++) {
    try {
      return await fetchedText(secret, signal);
    } catch {
      // The error is not logged, because it may contain the URL, which may contain a secret.
      if (attempt >= lookupAttempts) return undefined;
      await sleep(retryDelayMs, undefined, { signal }).catch(() => undefined);
    }
  }
  return undefined;
}

async function fetchedText({ url, headers }: Lookup, signal: AbortSignal): Promise<string> {
  const response = await fetch(url, {
    headers,
    // Redirects fail, because the headers are for this server alone.
    redirect: 'error',
    signal: AbortSignal.any([signal, AbortSignal.timeout(lookupTimeoutMs)]),
  });
  const bytes: AsyncIterable<Uint8Array> | readonly Uint8Array[] = response.body ?? [];
  const chunks: Uint8Array[] = [];
  let size = 0;
  // The body of an error response is not read. Its cancellation closes the connection.
  if (!response.ok) await response.body?.cancel();
  else
    for await (const chunk of bytes) {
      size += chunk.length;
      if (size > maxLookupBytes) break;
      chunks.push(chunk);
    }
  if (!response.ok || size > maxLookupBytes) throw new Error('the secret is not available');
  return Buffer.concat(chunks).toString('utf8');
}

/** Whether a process can have a variable of this name and value. */
export const isVariable = (name: string, value: string): boolean =>
  /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) &&
  !value.includes('\0') &&
  Buffer.byteLength(value) <= maxVariableBytes;

/** Variables that decide which programs a process runs, or where it keeps its state. */
const reserved =
  /^(HOME|PATH|SHELL|IFS|ENV|BASH_ENV|NODE_OPTIONS|NODE_PATH|NODE_EXTRA_CA_CERTS|NODE_TLS_REJECT_UNAUTHORIZED|LD_.*|DYLD_.*)$/;

/**
 * Returns secrets as variables of an agent's process. `skipped` names the others: those that are
 * invalid, `reserved`, in `taken`, or beyond `maxEnvironmentBytes`.
 */
export function agentVariablesOf(
  values: ReadonlyMap<string, string>,
  taken: ReadonlySet<string>,
): { readonly env: Readonly<Record<string, string>>; readonly skipped: readonly string[] } {
  const env: [string, string][] = [];
  const skipped: string[] = [];
  let bytes = 0;
  for (const [name, value] of values) {
    const size = name.length + Buffer.byteLength(value);
    const isAllowed = isVariable(name, value) && !reserved.test(name) && !taken.has(name);
    if (isAllowed && bytes + size <= maxEnvironmentBytes) {
      env.push([name, value]);
      bytes += size;
    } else skipped.push(name);
  }
  return { env: Object.fromEntries(env), skipped };
}
