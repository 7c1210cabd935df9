import { promisify } from 'node:util';
import { crc32, deflateRaw, deflateRawSync } from 'node:zlib';

export interface ZipFile {
  /** At most 65,535 bytes of UTF-8. */
  readonly name: string;
  /** Less than 4 GiB. */
  readonly content: Uint8Array;
}

interface Packed {
  readonly name: Buffer;
  /** The content compressed by DEFLATE. */
  readonly data: Buffer;
  readonly crc: number;
  readonly bytes: number;
}

/** Maximum of fields with 16 and 32 bits. At this maximum, a ZIP64 record has the real value. */
const max16 = 0xff_ff;
const max32 = 0xff_ff_ff_ff;
/** The flag for names in UTF-8. */
const flags = 0x08_00;
const deflated = 8;
/** Versions of the ZIP format: 2.0 has DEFLATE, and 4.5 has ZIP64. */
const plainVersion = 20;
const zip64Version = 45;
const slabBytes = 64 * 1024;
/** Maximum bytes of a file that this thread compresses, because another thread takes longer. */
const maxSyncBytes = 8 * 1024;
/** With these options, files up to `maxSyncBytes` need 64 KiB of memory instead of 256 KiB. */
const small = { windowBits: 13, memLevel: 6, chunkSize: 2048 };
const filesAtOnce = 4;

const deflate = promisify(deflateRaw);

/**
 * The bytes of a ZIP file. Memory holds one part of the files. For each earlier file, memory holds
 * its name and about 50 bytes, while ZIP libraries hold more than a kilobyte. If `parts` throws,
 * the ZIP file has no directory, so that no program accepts it as complete.
 * @param time Modification time of the files, in milliseconds since 1970.
 */
export async function* zipArchive(
  parts: AsyncIterable<readonly ZipFile[]>,
  time: number,
): AsyncGenerator<Buffer, void, undefined> {
  const directory: Buffer[] = [];
  let slab = Buffer.alloc(0);
  let used = 0;
  let offset = 0;
  let files = 0;
  const at = dosTime(time);
  for await (const part of parts) {
    const chunks: Buffer[] = [];
    for await (const file of allPacked(part)) {
      const record = directoryRecord(file, at, offset);
      if (used + record.length > slab.length) {
        directory.push(slab.subarray(0, used));
        [slab, used] = [Buffer.alloc(Math.max(slabBytes, record.length)), 0];
      }
      used += record.copy(slab, used);
      const header = localHeader(file, at);
      chunks.push(header, file.data);
      offset += header.length + file.data.length;
      files += 1;
    }
    if (chunks.length > 0) yield Buffer.concat(chunks);
  }
  directory.push(slab.subarray(0, used));
  yield* directory;
  const bytes = directory.reduce((sum, { length }) => sum + length, 0);
  yield endOfDirectory({ files, bytes, offset });
}

async function* allPacked(files: readonly ZipFile[]): AsyncGenerator<Packed> {
  for (let index = 0; index < files.length; index += filesAtOnce)
    yield* await Promise.all(files.slice(index, index + filesAtOnce).map(packed));
}

async function packed({ name, content }: ZipFile): Promise<Packed> {
  const data =
    content.length <= maxSyncBytes ? deflateRawSync(content, small) : await deflate(content);
  return { name: Buffer.from(name), data, crc: crc32(content), bytes: content.length };
}

/** Date and time in the format of MS-DOS, in UTC. The year is limited to 1980 to 2107. */
function dosTime(time: number): number {
  const date = new Date(time);
  const year = Math.min(Math.max(date.getUTCFullYear() - 1980, 0), 127);
  const day = (year << 9) | ((date.getUTCMonth() + 1) << 5) | date.getUTCDate();
  const clock =
    (date.getUTCHours() << 11) | (date.getUTCMinutes() << 5) | (date.getUTCSeconds() >> 1);
  return day * 0x1_00_00 + clock;
}

function commonFields({ name, data, crc, bytes }: Packed, at: number, version: number): Buffer {
  const fields = Buffer.alloc(24);
  fields.writeUInt16LE(version, 0);
  fields.writeUInt16LE(flags, 2);
  fields.writeUInt16LE(deflated, 4);
  fields.writeUInt32LE(at, 6);
  fields.writeUInt32LE(crc, 10);
  fields.writeUInt32LE(data.length, 14);
  fields.writeUInt32LE(bytes, 18);
  fields.writeUInt16LE(name.length, 22);
  return fields;
}

function localHeader(file: Packed, at: number): Buffer {
  const noExtraField = Buffer.alloc(2);
  return Buffer.concat([
    Buffer.from('PK\x03\x04'),
    commonFields(file, at, plainVersion),
    ...[noExtraField, file.name],
  ]);
}

/** @param offset Number of bytes before the file. */
export function directoryRecord(file: Packed, at: number, offset: number): Buffer {
  const isFar = offset >= max32;
  const version = isFar ? zip64Version : plainVersion;
  const madeBy = Buffer.alloc(2);
  madeBy.writeUInt16LE(version);
  const extra = Buffer.alloc(isFar ? 12 : 0);
  if (isFar) {
    extra.writeUInt16LE(1, 0);
    extra.writeUInt16LE(8, 2);
    extra.writeBigUInt64LE(BigInt(offset), 4);
  }
  // Lengths of the extra field and of the comment, disk number, attributes, and offset.
  const rest = Buffer.alloc(16);
  rest.writeUInt16LE(extra.length, 0);
  rest.writeUInt32LE(Math.min(offset, max32), 12);
  return Buffer.concat([
    ...[Buffer.from('PK\x01\x02'), madeBy, commonFields(file, at, version)],
    ...[rest, file.name, extra],
  ]);
}

interface Directory {
  readonly files: number;
  readonly bytes: number;
  /** Number of bytes before the directory. */
  readonly offset: number;
}

/** End of a ZIP file, with ZIP64 records if a number does not fit into its field. */
export function endOfDirectory({ files, bytes, offset }: Directory): Buffer {
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06');
  end.writeUInt16LE(Math.min(files, max16), 8);
  end.writeUInt16LE(Math.min(files, max16), 10);
  end.writeUInt32LE(Math.min(bytes, max32), 12);
  end.writeUInt32LE(Math.min(offset, max32), 16);
  if (files < max16 && bytes < max32 && offset < max32) return end;
  const large = Buffer.alloc(56);
  large.write('PK\x06\x06');
  large.writeBigUInt64LE(44n, 4);
  large.writeUInt16LE(zip64Version, 12);
  large.writeUInt16LE(zip64Version, 14);
  large.writeBigUInt64LE(BigInt(files), 24);
  large.writeBigUInt64LE(BigInt(files), 32);
  large.writeBigUInt64LE(BigInt(bytes), 40);
  large.writeBigUInt64LE(BigInt(offset), 48);
  const locator = Buffer.alloc(20);
  locator.write('PK\x06\x07');
  locator.writeBigUInt64LE(BigInt(offset + bytes), 8);
  locator.writeUInt32LE(1, 16);
  return Buffer.concat([large, locator, end]);
}
