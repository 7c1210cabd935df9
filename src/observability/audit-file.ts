import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import type { AuditSink } from './audit.ts';

export interface AuditFileOptions {
  readonly path: string;
  readonly clock: Clock;
  /** Gets the lines that the file does not get. */
  readonly fallback: Logger;
  readonly metrics: { readonly auditWriteFailures: { inc(): void } };
}

const fileMode = 0o600;

const { O_APPEND, O_CREAT, O_NONBLOCK, O_WRONLY } = constants;

/**
 * Opens the file, which only this user can read where it is new. Throws if that is impossible, also
 * for a pipe that nobody reads, at which the process would hang.
 */
const openFile = (path: string): number =>
  openSync(path, O_APPEND | O_CREAT | O_NONBLOCK | O_WRONLY, fileMode);

/** Throws the reason why no line can be written to the file. */
export function checkAuditFile(path: string): void {
  closeSync(openFile(path));
}

/**
 * Appends lines of the audit log to a file, as JSON. Each line opens the file anew, so that a line
 * follows a renamed file to the new one, and a folder that comes back is used again. A line is
 * written before the call returns: neither a shutdown nor the death of the process loses it. A line
 * that the file does not get goes to `fallback`, with the reason.
 */
export function auditFile({ path, clock, fallback, metrics }: AuditFileOptions): AuditSink {
  // A full disk may have taken a part of a line, after which the next one begins on its own.
  let isTorn = false;

  function append(text: string): void {
    const file = openFile(path);
    try {
      const bytes = Buffer.from(isTorn ? `\n${text}` : text);
      let written = 0;
      try {
        while (written < bytes.length) written += writeSync(file, bytes, written);
      } finally {
        if (written > 0) isTorn = written < bytes.length;
      }
    } finally {
      closeSync(file);
    }
  }

  return {
    info: (message, fields) => {
      const line = { timestamp: isoTime(clock), level: 'info', message, component: 'audit' };
      try {
        append(`${JSON.stringify({ ...line, ...fields })}\n`);
      } catch (error) {
        metrics.auditWriteFailures.inc();
        const reason = error instanceof Error ? error.message : String(error);
        fallback.info(message, { ...fields, notWritten: reason });
      }
    },
  };
}
