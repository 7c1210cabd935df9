import { badRequest, unsupportedMediaType } from '../api/status-error.ts';
import { isArray, isObject, type Json } from '../json/json.ts';

/**
 * Type of the requests that kubectl and Helm send as protobuf without a fallback to JSON: `kubectl
 * create` of the small kinds, and the Secrets of Helm releases. A body is an envelope
 * (`runtime.Unknown`, after four magic bytes) around one of `types`, with the field numbers of
 * Kubernetes' .proto files.
 */
export const protobufType = 'application/vnd.kubernetes.protobuf';

type FieldType =
  | 'string'
  | 'bytes'
  | 'integer'
  | 'boolean'
  | 'time'
  | Message
  | { readonly list: FieldType }
  | { readonly map: FieldType };
interface Message {
  readonly fields: Readonly<Record<number, readonly [name: string, type: FieldType]>>;
}

const message = (fields: Message['fields']): Message => ({ fields });
const strings: FieldType = { map: 'string' };

const ownerReference = message({
  1: ['kind', 'string'],
  3: ['name', 'string'],
  4: ['uid', 'string'],
  5: ['apiVersion', 'string'],
  6: ['controller', 'boolean'],
  7: ['blockOwnerDeletion', 'boolean'],
});
const objectMeta = message({
  1: ['name', 'string'],
  2: ['generateName', 'string'],
  3: ['namespace', 'string'],
  5: ['uid', 'string'],
  6: ['resourceVersion', 'string'],
  7: ['generation', 'integer'],
  8: ['creationTimestamp', 'time'],
  11: ['labels', strings],
  12: ['annotations', strings],
  13: ['ownerReferences', { list: ownerReference }],
  14: ['finalizers', { list: 'string' }],
});
const metadata = ['metadata', objectMeta] as const;
const localReferences: FieldType = { list: message({ 1: ['name', 'string'] }) };
const deleteOptions = message({
  1: ['gracePeriodSeconds', 'integer'],
  2: ['preconditions', message({ 1: ['uid', 'string'], 2: ['resourceVersion', 'string'] })],
  3: ['orphanDependents', 'boolean'],
  4: ['propagationPolicy', 'string'],
  5: ['dryRun', { list: 'string' }],
});
/** Message types by kind. The name of each of these kinds occurs in only one API group. */
const types: Readonly<Record<string, Message>> = {
  Namespace: message({ 1: metadata }),
  ConfigMap: message({
    1: metadata,
    2: ['data', strings],
    3: ['binaryData', { map: 'bytes' }],
    4: ['immutable', 'boolean'],
  }),
  Secret: message({
    1: metadata,
    2: ['data', { map: 'bytes' }],
    3: ['type', 'string'],
    4: ['stringData', strings],
    5: ['immutable', 'boolean'],
  }),
  ServiceAccount: message({
    1: metadata,
    3: ['imagePullSecrets', localReferences],
    4: ['automountServiceAccountToken', 'boolean'],
  }),
  DeleteOptions: deleteOptions,
};

const magic = Buffer.from('k8s\0');
const typeMeta = message({ 1: ['apiVersion', 'string'], 2: ['kind', 'string'] });
const time = message({ 1: ['seconds', 'integer'], 2: ['nanos', 'integer'] });

interface RawField {
  readonly number: number;
  readonly value: bigint | Buffer;
}

function* rawFields(bytes: Buffer): Generator<RawField> {
  let offset = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[offset];
      if (byte === undefined || shift > 63n) throw badRequest('the protobuf message is truncated');
      offset += 1;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asIntN(64, value);
    }
  };
  const slice = (length: number): Buffer => {
    if (offset + length > bytes.length) throw badRequest('the protobuf message is truncated');
    offset += length;
    return bytes.subarray(offset - length, offset);
  };
  while (offset < bytes.length) {
    const tag = Number(varint());
    const number = tag >>> 3;
    switch (tag & 7) {
      case 0:
        yield { number, value: varint() };
        break;
      case 1:
        yield { number, value: slice(8) };
        break;
      case 2:
        yield { number, value: slice(Number(varint())) };
        break;
      case 5:
        yield { number, value: slice(4) };
        break;
      default:
        throw badRequest('the protobuf message has a field of an unknown wire type');
    }
  }
}

const buffer = (value: bigint | Buffer): Buffer =>
  typeof value === 'bigint' ? Buffer.alloc(0) : value;

/** Returns a field's value. A list or map arrives in parts: `present` has the earlier ones. */
function valueOf(raw: bigint | Buffer, type: FieldType, present: Json | undefined): Json {
  switch (type) {
    case 'string':
      return buffer(raw).toString('utf8');
    case 'bytes':
      return buffer(raw).toString('base64');
    case 'integer':
      return Number(raw);
    case 'boolean':
      return raw !== 0n;
    case 'time': {
      const { seconds } = read(buffer(raw), time);
      return typeof seconds === 'number' ? new Date(seconds * 1000).toISOString() : null;
    }
  }
  if ('list' in type)
    return [...(isArray(present) ? present : []), valueOf(raw, type.list, undefined)];
  if ('fields' in type) return read(buffer(raw), type);
  const entry = message({ 1: ['key', 'string'], 2: ['value', type.map] });
  const { key = '', value = '' } = read(buffer(raw), entry);
  return { ...(isObject(present) ? present : {}), [typeof key === 'string' ? key : '']: value };
}

function read(bytes: Buffer, { fields }: Message): Record<string, Json> {
  const entries = new Map<string, Json>();
  for (const { number, value } of rawFields(bytes)) {
    const [name, type] = fields[number] ?? [];
    if (name === undefined || type === undefined) continue;
    // Go encodes an unset string as an empty one, which counts as absent here.
    if (type !== 'string' || buffer(value).length > 0)
      entries.set(name, valueOf(value, type, entries.get(name)));
  }
  return Object.fromEntries(entries);
}

/** Converts a protobuf body to JSON. @throws StatusError 415 for a kind without a message type */
export function jsonOfProtobuf(bytes: Buffer): string {
  if (!bytes.subarray(0, 4).equals(magic))
    throw badRequest('the body is not in the protobuf form of Kubernetes');
  const parts = new Map(
    [...rawFields(bytes.subarray(4))].map(({ number, value }) => [number, buffer(value)]),
  );
  const { apiVersion, kind } = read(parts.get(1) ?? Buffer.alloc(0), typeMeta);
  const type = typeof kind === 'string' && Object.hasOwn(types, kind) ? types[kind] : undefined;
  if (type === undefined) throw unsupportedMediaType(['application/json']);
  return JSON.stringify({ apiVersion, kind, ...read(parts.get(2) ?? Buffer.alloc(0), type) });
}
