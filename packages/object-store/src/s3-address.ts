import { isKey } from './keys.ts';
import { StoreError } from './store-error.ts';

export interface S3AddressOptions {
  /** Default: the endpoint of AWS in the region. */
  readonly endpoint?: string | undefined;
  readonly region: string;
  readonly bucket: string;
  /** Segments before all keys, joined by `/`. Default: none. */
  readonly prefix?: string | undefined;
  /**
   * Whether the bucket is in the path of URLs and not in their host. Default: true with an
   * `endpoint`, or for a bucket with a dot, which no certificate covers.
   */
  readonly pathStyle?: boolean | undefined;
}

export interface S3Address {
  /** Beginning of all keys in the bucket; empty, or with a `/` at its end. */
  readonly prefix: string;
  urlOf(key: string): URL;
  /** URL of the bucket with these parameters. */
  listUrl(query: Readonly<Record<string, string>>): URL;
}

const maxPrefixLength = 200;

/** Returns the URLs of a bucket. Throws an `invalid` error that names the option. */
export function s3Address(options: S3AddressOptions): S3Address {
  const { region, bucket, endpoint = endpointOf(region) } = options;
  check(/^[A-Za-z0-9-]{1,64}$/.test(region), 'region is no name of a region');
  check(
    /^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$/.test(bucket) && !bucket.includes('..'),
    'bucket is no name of a bucket',
  );
  const base = URL.parse(endpoint);
  check(
    base !== null && ['http:', 'https:'].includes(base.protocol),
    'endpoint is no URL of http or https',
  );
  check(
    `${base.username}${base.password}${base.search}${base.hash}` === '',
    'endpoint has more than an origin and a path',
  );
  const prefix = (options.prefix ?? '').replace(/\/$/, '');
  check(
    prefix === '' || (isKey(prefix) && prefix.length <= maxPrefixLength),
    `prefix is not the beginning of keys, or longer than ${maxPrefixLength} characters`,
  );

  const { pathStyle = options.endpoint !== undefined || bucket.includes('.') } = options;
  const path = base.pathname.replace(/\/+$/, '');
  if (!pathStyle) base.hostname = `${bucket}.${base.hostname}`;
  check(
    pathStyle || base.hostname.startsWith(`${bucket.toLowerCase()}.`),
    'endpoint is an address',
  );
  const root = `${base.origin}${path}${pathStyle ? `/${bucket}` : ''}`;
  const beginning = prefix === '' ? '' : `${prefix}/`;
  return {
    prefix: beginning,
    urlOf: (key) => new URL(`${root}/${beginning}${key}`),
    listUrl: (query) => new URL(`${root}${pathStyle ? '' : '/'}?${queryOf(query)}`),
  };
}

const endpointOf = (region: string): string =>
  `https://s3.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`;

/** Spaces are `%20`, as the signature has them. */
const queryOf = (query: Readonly<Record<string, string>>): string =>
  Object.entries(query)
    .map((pair) => pair.map(encodeURIComponent).join('='))
    .join('&');

function check(condition: boolean, problem: string): asserts condition {
  if (!condition) throw new StoreError('invalid', `Settings of the object store: ${problem}`);
}
