import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { maxSealedLength, type OwnerMcpServer } from '../resources/owner-settings.ts';
import type { SandboxKeys } from './keys.ts';
import { z } from 'zod';

/**
 * Owner and name of a secret. An encrypted text can be decrypted only with the same values: a copy
 * of the text in the object of another owner, or under another name, stays unreadable.
 */
export type SealContext =
  | { readonly scope: 'secret' | 'mcp'; readonly owner: string; readonly name: string }
  | {
      readonly scope: 'start';
      readonly owner: string;
      /** Name of the Conversation resource, not its id in the REST service. */
      readonly conversation: string;
      readonly name: string;
    };

export interface Sealing {
  /** Encrypts a text under the current master key. The text has to be well-formed Unicode. */
  seal(text: string, context: SealContext): string;
  /** Decrypts `sealed`. Undefined: `sealed`, `context` or the master key is wrong. Never throws. */
  open(sealed: string, context: SealContext): string | undefined;
  /** Whether `sealed` contains the id of the current master key. `open` may still fail. */
  isCurrent(sealed: string): boolean;
}

const cipher = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;
/** `v1.<id of the master key>.<nonce>.<ciphertext and tag>` */
const form = /^v1\.([0-9a-f]{12})\.([A-Za-z0-9_-]{16})\.([A-Za-z0-9_-]{22,})$/;

/** JSON gives a different text for each context, whatever characters its values contain. */
const additionalDataOf = (context: SealContext): Buffer => {
  const { scope, owner, name } = context;
  const place =
    context.scope === 'start' ? [scope, owner, context.conversation, name] : [scope, owner, name];
  return Buffer.from(JSON.stringify(place));
};

/** The bytes of a base64url text; undefined if the text is not the canonical encoding. */
function bytesOf(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : undefined;
}

/** Each call uses the master keys that `keys` contains at the time of the call. */
export const sealingUnder = (
  keys: Pick<SandboxKeys, 'sealKeys' | 'currentKeyId'>,
  random: (bytes: number) => Buffer = randomBytes,
): Sealing => ({
  seal: (text, context) => {
    const keyId = keys.currentKeyId;
    const key = keys.sealKeys().get(keyId);
    if (key === undefined) throw new Error(`the master key ${keyId} is not among those given`);
    const nonce = random(nonceBytes);
    const encryption = createCipheriv(cipher, key, nonce, { authTagLength: tagBytes });
    encryption.setAAD(additionalDataOf(context));
    const sealed = [encryption.update(text, 'utf8'), encryption.final(), encryption.getAuthTag()];
    return `v1.${keyId}.${nonce.toString('base64url')}.${Buffer.concat(sealed).toString('base64url')}`;
  },
  open: (sealed, context) => {
    const parts = sealed.length > maxSealedLength ? null : form.exec(sealed);
    const key = keys.sealKeys().get(parts?.[1] ?? '');
    const nonce = bytesOf(parts?.[2] ?? '');
    const content = bytesOf(parts?.[3] ?? '');
    if (key === undefined || nonce === undefined || content === undefined) return undefined;
    try {
      const decryption = createDecipheriv(cipher, key, nonce, { authTagLength: tagBytes });
      decryption.setAAD(additionalDataOf(context));
      decryption.setAuthTag(content.subarray(-tagBytes));
      const text = [decryption.update(content.subarray(0, -tagBytes)), decryption.final()];
      return Buffer.concat(text).toString('utf8');
    } catch {
      return undefined;
    }
  },
  isCurrent: (sealed) => sealed.startsWith(`v1.${keys.currentKeyId}.`),
});

const valuesSchema = z.record(z.string(), z.string());

/** Secret headers or env of an MCP server; undefined if the decryption fails. Never throws. */
export function mcpValuesOf(
  { name, sealed }: Pick<OwnerMcpServer, 'name' | 'sealed'>,
  owner: string,
  sealing: Sealing,
): Readonly<Record<string, string>> | undefined {
  if (sealed === undefined) return {};
  const text = sealing.open(sealed, { scope: 'mcp', owner, name });
  try {
    return text === undefined ? undefined : valuesSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
