import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { crc32 } from 'node:zlib';

/** A fault of one request, in the order of the requests. */
export type Fault =
  | 'none'
  /** The connection is closed before the request has an effect. */
  | 'drop'
  /** The connection is closed after the request has had its effect. */
  | 'drop-after-effect'
  /** The request has its effect twice, as when a proxy repeats it. */
  | 'repeat'
  /** The response ends in the middle of its body. */
  | 'truncate'
  /** There is never a response. */
  | 'silence'
  | {
      readonly status: number;
      readonly code?: string;
      readonly message?: string;
      readonly headers?: Readonly<Record<string, string>>;
      /** Whether the request has its effect all the same. */
      readonly afterEffect?: boolean;
      /** Body in place of an error of S3. */
      readonly body?: string;
    };

export interface FakeCredentials {
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

export interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A server with the part of S3 that the store uses, and the faults of a test. */
export interface FakeS3 extends AsyncDisposable {
  readonly url: string;
  readonly bucket: string;
  /** By key, and by UTF-8 bytes in no order. */
  readonly objects: Map<string, Buffer>;
  /** By access key. */
  readonly credentials: Map<string, FakeCredentials>;
  readonly expired: Set<string>;
  /** Faults of the next requests. */
  readonly faults: Fault[];
  readonly seen: Seen[];
  /** Time of the server less the time of this machine. */
  skewMs: number;
  ignoresRanges: boolean;
  requiresChecksums: boolean;
  /** Maximum names of a page, whatever the request allows. */
  maxKeys: number;
}

const region = 'eu-test-1';
const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest('hex');
const hmac = (key: string | Buffer, data: string) =>
  createHmac('sha256', key).update(data).digest();

class S3Error extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message = code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export async function startFakeS3(bucket = 'a-bucket'): Promise<FakeS3> {
  const server = createServer((request, response) => void serve(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const fake: FakeS3 = {
    url: `http://127.0.0.1:${port}`,
    bucket,
    objects: new Map<string, Buffer>(),
    credentials: new Map([['AKIDEXAMPLE', { secretAccessKey: 'the-secret+of/tests' }]]),
    expired: new Set<string>(),
    faults: [],
    seen: [],
    skewMs: 0,
    ignoresRanges: false,
    requiresChecksums: false,
    maxKeys: 1000,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const chunks: Buffer[] = [];
      for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
      const { method = '', url = '', headers } = request;
      const seen = { method, url, headers, body: Buffer.concat(chunks) };
      fake.seen.push(seen);
      const fault = fake.faults.shift() ?? 'none';
      if (fault === 'silence') return;
      if (fault === 'drop' || (typeof fault === 'object' && fault.afterEffect !== true)) {
        inject(response, fault);
        return;
      }
      const answer = answerOf(fake, seen);
      if (fault === 'repeat') answerOf(fake, seen);
      if (fault === 'none' || fault === 'repeat') {
        const date = new Date(Date.now() + fake.skewMs).toUTCString();
        response.writeHead(answer.status, { date, ...answer.headers }).end(answer.body);
      } else if (fault === 'truncate') {
        const body = answer.body ?? '';
        response.writeHead(answer.status, { 'content-length': body.length + 10 });
        response.write(body);
        response.socket?.end();
      } else inject(response, fault);
    } catch {
      response.destroy();
    }
  }
  return fake;
}

function inject(response: ServerResponse, fault: Fault): void {
  if (typeof fault === 'string') {
    response.socket?.destroy();
    return;
  }
  const { status, code = '', message = code, headers = {}, body } = fault;
  response.writeHead(status, headers).end(body ?? (code === '' ? '' : errorBody(code, message)));
}

interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

function answerOf(fake: FakeS3, seen: Seen): Answer {
  try {
    authenticate(fake, seen);
    return handle(fake, seen);
  } catch (error) {
    if (!(error instanceof S3Error)) throw error;
    return { status: error.status, body: errorBody(error.code, error.message) };
  }
}

function handle(fake: FakeS3, { method, url, headers, body }: Seen): Answer {
  const { pathname, searchParams } = new URL(url, 'http://host');
  const [, bucket, ...segments] = pathname.split('/').map(decodeURIComponent);
  if (bucket !== fake.bucket) throw new S3Error(404, 'NoSuchBucket');
  const key = segments.join('/');
  if (key === '') return listOf(fake, searchParams);
  if (method === 'DELETE') {
    fake.objects.delete(key);
    return { status: 204 };
  }
  if (method === 'PUT') {
    checkSums(fake, headers, body);
    fake.objects.set(key, body);
    return { status: 200, headers: { etag: '"x"' } };
  }
  const found = fake.objects.get(key);
  if (found === undefined) throw new S3Error(404, 'NoSuchKey');
  const range = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '');
  if (range === null || fake.ignoresRanges) return { status: 200, body: found };
  const [start, end] = [Number(range[1]), Number(range[2])];
  if (start >= found.length) throw new S3Error(416, 'InvalidRange');
  const part = found.subarray(start, end + 1);
  const contentRange = `bytes ${start}-${start + part.length - 1}/${found.length}`;
  return { status: 206, headers: { 'content-range': contentRange }, body: part };
}

function checkSums(fake: FakeS3, headers: IncomingHttpHeaders, body: Buffer): void {
  const { 'content-md5': md5, 'x-amz-checksum-crc32': crc } = headers;
  if (fake.requiresChecksums && md5 === undefined && crc === undefined)
    throw new S3Error(
      400,
      'InvalidRequest',
      'Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters',
    );
  if (md5 !== undefined && md5 !== createHash('md5').update(body).digest('base64'))
    throw new S3Error(400, 'BadDigest');
  if (crc !== undefined && Buffer.from(String(crc), 'base64').readUInt32BE() !== crc32(body))
    throw new S3Error(400, 'BadDigest');
}

/** ListObjectsV2: a prefix is there when a key behind `start-after` has it. */
function listOf(fake: FakeS3, query: URLSearchParams): Answer {
  if (query.get('list-type') !== '2') throw new S3Error(501, 'NotImplemented');
  const prefix = query.get('prefix') ?? '';
  const delimiter = query.get('delimiter') ?? '';
  const limit = Math.min(fake.maxKeys, Number(query.get('max-keys') ?? '1000'));
  const token = query.get('continuation-token');
  const after = token === null ? query.get('start-after') : token.slice('token:'.length);
  const keys = [...fake.objects.keys()]
    .filter((key) => key.startsWith(prefix) && bytesOrder(key, after ?? '') > 0)
    .sort(bytesOrder);
  const names = new Map<string, string>();
  let last = '';
  let isTruncated = false;
  for (const key of keys) {
    const end = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length);
    const name = end < 0 ? key : key.slice(0, end + 1);
    if (!names.has(name) && names.size === limit) {
      isTruncated = true;
      break;
    }
    names.set(
      name,
      end < 0
        ? `<Contents><Key>${escape(key)}</Key><LastModified>2030-01-01T00:00:00.000Z</LastModified>` +
            `<ETag>&quot;x&quot;</ETag><Size>${fake.objects.get(key)?.length ?? 0}</Size></Contents>`
        : `<CommonPrefixes><Prefix>${escape(name)}</Prefix></CommonPrefixes>`,
    );
    last = key;
  }
  const next = isTruncated
    ? `<NextContinuationToken>token:${escape(last)}</NextContinuationToken>`
    : '';
  return {
    status: 200,
    body:
      '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">' +
      `<Name>${fake.bucket}</Name><IsTruncated>${isTruncated}</IsTruncated>${next}` +
      `${[...names.values()].join('')}</ListBucketResult>`,
  };
}

const bytesOrder = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

const escape = (text: string) =>
  text.replaceAll(/[&<>]/g, (character) => `&#x${character.charCodeAt(0).toString(16)};`);

const errorBody = (code: string, message: string) =>
  `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>${escape(message)}</Message><RequestId>1</RequestId></Error>`;

/** Signature Version 4 in headers, computed anew from the request as it has arrived. */
function authenticate(fake: FakeS3, { method, url, headers, body }: Seen): void {
  const header = (name: string) => String(headers[name] ?? '');
  const [, id = '', scope = '', signedHeaders = '', signature] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/([^,]+), SignedHeaders=([^,]+), Signature=([\da-f]{64})$/.exec(
      header('authorization'),
    ) ?? [];
  const credentials = fake.credentials.get(id);
  if (credentials === undefined) throw new S3Error(403, 'InvalidAccessKeyId');
  const { secretAccessKey, sessionToken = '' } = credentials;
  const date = header('x-amz-date');
  const time = Date.parse(
    date.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'),
  );
  if (!(Math.abs(time - Date.now() - fake.skewMs) < 900_000))
    throw new S3Error(403, 'RequestTimeTooSkewed');
  const names = signedHeaders.split(';');
  const mustBeSigned = Object.keys(headers).filter((name) => name.startsWith('x-amz-'));
  if (!['host', ...mustBeSigned].every((name) => names.includes(name)))
    throw new S3Error(403, 'AccessDenied', 'There were headers present which were not signed');
  const [path = '', query = ''] = url.split('?');
  const canonical = [
    ...[method, path, query.split('&').sort().join('&')],
    ...names.map((name) => `${name}:${header(name).trim()}`),
    ...['', signedHeaders, header('x-amz-content-sha256')],
  ].join('\n');
  const parts = scope.split('/');
  const [day = ''] = parts;
  if (scope !== `${date.slice(0, 8)}/${region}/s3/aws4_request`)
    throw new S3Error(400, 'AuthorizationHeaderMalformed');
  const key = parts.slice(1).reduce<Buffer>(hmac, hmac(`AWS4${secretAccessKey}`, day));
  const expected = hmac(key, `AWS4-HMAC-SHA256\n${date}\n${scope}\n${sha256(canonical)}`);
  if (expected.toString('hex') !== signature) throw new S3Error(403, 'SignatureDoesNotMatch');
  if (header('x-amz-security-token') !== sessionToken) throw new S3Error(400, 'InvalidToken');
  if (fake.expired.has(id)) throw new S3Error(400, 'ExpiredToken');
  if (header('x-amz-content-sha256') !== sha256(body))
    throw new S3Error(400, 'XAmzContentSHA256Mismatch');
}
