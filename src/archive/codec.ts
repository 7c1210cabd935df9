import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { SandboxKeys } from '../agent/keys.ts';
import { type ArchiveAddress, ArchiveError } from './layout.ts';

/** Compresses the parts of an archive, and encrypts them under the master key if configured. */
export interface Codec {
  /** Codecs with an equal `variant` pack the same text into the same number of bytes. */
  readonly variant: string;
  /** `place` names the part within the archive. `unpack` needs the same address and place. */
  pack(address: ArchiveAddress, place: string, text: Uint8Array): Buffer;
  /** Throws `ArchiveError` with the code `damaged`. */
  unpack(address: ArchiveAddress, place: string, packed: Uint8Array): Buffer;
}

export interface CodecOptions {
  /** Keys that decrypt parts, needed even if new parts are not encrypted. */
  readonly keys: Pick<SandboxKeys, 'sealKeys' | 'currentKeyId'>;
  /** Whether to encrypt new parts with AES-256-GCM. */
  readonly encrypt: boolean;
  readonly random?: (bytes: number) => Buffer;
}

/** First byte of an encrypted part. An unencrypted part is a frame of zstd and begins with 0x28. */
const sealedMark = 0xe1;
const keyIdBytes = 6;
const nonceBytes = 12;
const tagBytes = 16;
const headerBytes = 1 + keyIdBytes + nonceBytes;
const cipher = 'aes-256-gcm';
/** Maximum bytes of an unpacked part. The largest part is a frame with one large event. */
const maxPartBytes = 64 * 1024 * 1024;
const maxKeys = 1000;
const compression = {
  params: { [constants.ZSTD_c_compressionLevel]: 3, [constants.ZSTD_c_checksumFlag]: 1 },
};
/** Different versions of zstd compress the same text to different lengths. */
const zstdVersion = process.versions['zstd'] ?? '';

/** Each archive has its own derived key, so that random nonces do not repeat under one key. */
export function createCodec({ keys, encrypt, random = randomBytes }: CodecOptions): Codec {
  const derived = recentlyUsed<Buffer>(maxKeys);

  const keyFor = ({ namespace, uid }: ArchiveAddress, keyId: string): Buffer => {
    const master = keys.sealKeys().get(keyId);
    if (master === undefined)
      throw new ArchiveError('damaged', `No known master key opens the archive ${uid}.`);
    const name = `${keyId} ${namespace}/${uid}`;
    const known = derived.get(name);
    if (known !== undefined) return known;
    const info = 'conversation-operator archive';
    const key = Buffer.from(hkdfSync('sha256', master, `${namespace}/${uid}`, info, 32));
    derived.set(name, key);
    return key;
  };

  return {
    get variant() {
      return encrypt ? `${zstdVersion} ${keys.currentKeyId}` : zstdVersion;
    },
    pack: (address, place, text) => {
      const compressed = zstdCompressSync(text, compression);
      if (!encrypt) return compressed;
      const keyId = keys.currentKeyId;
      const nonce = random(nonceBytes);
      const encryption = createCipheriv(cipher, keyFor(address, keyId), nonce);
      encryption.setAAD(Buffer.from(place));
      const header = [Buffer.of(sealedMark), Buffer.from(keyId, 'hex'), nonce];
      const sealed = [encryption.update(compressed), encryption.final()];
      return Buffer.concat([...header, ...sealed, encryption.getAuthTag()]);
    },
    unpack: (address, place, packed) => {
      const bytes = Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength);
      try {
        const compressed = bytes[0] === sealedMark ? unseal(address, place, bytes) : bytes;
        return zstdDecompressSync(compressed, { maxOutputLength: maxPartBytes });
      } catch (error) {
        if (error instanceof ArchiveError) throw error;
        const message = `The part ${place} of the archive ${address.uid} is damaged.`;
        throw new ArchiveError('damaged', message, { cause: error });
      }
    },
  };

  function unseal(address: ArchiveAddress, place: string, bytes: Buffer): Buffer {
    const keyId = bytes.toString('hex', 1, 1 + keyIdBytes);
    const nonce = bytes.subarray(1 + keyIdBytes, headerBytes);
    const decryption = createDecipheriv(cipher, keyFor(address, keyId), nonce, {
      authTagLength: tagBytes,
    });
    decryption.setAAD(Buffer.from(place));
    decryption.setAuthTag(bytes.subarray(-tagBytes));
    return Buffer.concat([
      decryption.update(bytes.subarray(headerBytes, -tagBytes)),
      decryption.final(),
    ]);
  }
}
