import { notAcceptable } from '../api/status-error.ts';

export interface NegotiatedMediaType {
  readonly as: 'Object' | 'Table' | 'PartialObjectMetadata';
  readonly format: 'json' | 'yaml';
  /** Content type of the response. */
  readonly contentType: string;
}

interface MediaRange {
  readonly type: string;
  readonly parameters: Readonly<Record<string, string>>;
}

export const parseAccept = (accept: string): readonly MediaRange[] =>
  accept.split(',').map((range) => {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim());
    return {
      type,
      parameters: Object.fromEntries(
        parameters.map((parameter) => parameter.split('=').map((part) => part.trim())),
      ) as Record<string, string>,
    };
  });

const plainJson: NegotiatedMediaType = {
  as: 'Object',
  format: 'json',
  contentType: 'application/json',
};

function supportedMediaType({ type, parameters }: MediaRange): NegotiatedMediaType | undefined {
  const { as, g, v } = parameters;
  if (as !== undefined) {
    if (type !== 'application/json' || g !== 'meta.k8s.io' || v !== 'v1') return undefined;
    const contentType = `application/json;as=${as};g=meta.k8s.io;v=v1`;
    if (as === 'Table') return { as, format: 'json', contentType: 'application/json' };
    return as === 'PartialObjectMetadata' || as === 'PartialObjectMetadataList'
      ? { as: 'PartialObjectMetadata', format: 'json', contentType }
      : undefined;
  }
  if (type === 'application/json' || type === '*/*' || type === 'application/*') return plainJson;
  if (type === 'application/yaml')
    return { as: 'Object', format: 'yaml', contentType: 'application/yaml' };
  return undefined;
}

const cache = new Map<string, NegotiatedMediaType>();

/** Returns the first supported media type that the client accepts. @throws StatusError 406 */
export function negotiate(accept: string | undefined): NegotiatedMediaType {
  if (accept === undefined || accept === '') return plainJson;
  const known = cache.get(accept);
  if (known !== undefined) return known;
  const mediaType = parseAccept(accept)
    .map(supportedMediaType)
    .find((candidate) => candidate !== undefined);
  if (mediaType === undefined) throw notAcceptable();
  // Clients use few different headers, so the cache ignores headers beyond its limit.
  if (cache.size < 100) cache.set(accept, mediaType);
  return mediaType;
}
