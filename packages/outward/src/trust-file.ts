import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import type { Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';

export interface TrustFileOptions {
  readonly path: string;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly logger: Logger;
}

export interface Trust {
  /** CAs for new connections. Every change of them gives a new object. Undefined: Node's CAs. */
  current(): SecureContext | undefined;
}

/** Minimum time between two reads of the file. */
const readEveryMs = 2000;
const maxBytes = 8 * 1024 * 1024;
const block = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Returns the PEM certificates of a text. Throws an error with the reason if one is invalid. */
export function certificatesOf(text: string): readonly string[] {
  const blocks = text.match(block) ?? [];
  if (blocks.length === 0) throw new Error('the file has no certificates as PEM');
  if (blocks.length !== text.split('-----BEGIN CERTIFICATE-----').length - 1)
    throw new Error('a certificate of the file has no end');
  for (const [index, one] of blocks.entries()) {
    try {
      new X509Certificate(one);
    } catch (error) {
      throw new Error(`certificate ${index + 1} of the file can not be read`, { cause: error });
    }
  }
  return blocks;
}

function read(path: string): string {
  const stat = statSync(path);
  // A read from a pipe would block the process.
  if (!stat.isFile()) throw new Error('the path is no file');
  if (stat.size > maxBytes) throw new Error(`the file has more than ${maxBytes} bytes`);
  return readFileSync(path, 'utf8');
}

/**
 * Trusts the CA certificates of a file, and those of Node (with NODE_EXTRA_CA_CERTS). New
 * connections read the file again, at most every 2 s, so any replacement of the file takes effect.
 * If the new content is invalid, the last valid content stays in use.
 */
export class TrustFile implements Trust {
  readonly #options: TrustFileOptions;
  #text: string;
  #certificates: readonly string[];
  #context: SecureContext;
  #readAt: number;
  #hasFailed = false;

  /** Throws an error with the reason if the file can't be used. */
  constructor(options: TrustFileOptions) {
    this.#options = options;
    this.#readAt = options.clock.monotonic();
    this.#text = read(options.path);
    this.#certificates = certificatesOf(this.#text);
    this.#context = contextOf(this.#certificates);
  }

  get size(): number {
    return this.#certificates.length;
  }

  current(): SecureContext {
    const { clock, path, logger } = this.#options;
    const now = clock.monotonic();
    if (now - this.#readAt < readEveryMs) return this.#context;
    this.#readAt = now;
    try {
      const text = read(path);
      if (text !== this.#text) {
        const certificates = certificatesOf(text);
        this.#context = contextOf(certificates);
        this.#certificates = certificates;
        this.#text = text;
        logger.info('the trusted certificates have changed', { certificates: this.size });
      }
      this.#hasFailed = false;
    } catch (error) {
      if (!this.#hasFailed)
        logger.warn('the file of trusted certificates can not be used; the last ones stay', {
          file: path,
          error,
        });
      this.#hasFailed = true;
    }
    return this.#context;
  }
}

/** Creates a context for many connections, because parsing Node's CA certificates takes 50 ms. */
const contextOf = (certificates: readonly string[]): SecureContext =>
  createSecureContext({ ca: [...getCACertificates('default'), ...certificates] });
