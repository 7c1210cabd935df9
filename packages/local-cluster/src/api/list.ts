import type { ApiResource } from '../registry/api-resource.ts';
import type { ListMeta } from './serializer.ts';
import type { Stored } from '../storage/changes.ts';
import { keyOf, type ObjectStore } from '../storage/object-store.ts';
import type { Selection } from './selection.ts';
import { badRequest, expired, StatusError, tooLargeVersion } from './status-error.ts';
import { isObject, numberAt, stringAt, type Json } from '../json/json.ts';

interface ContinueToken {
  /** Version of the continued list. Undefined: expired, the current state follows. */
  readonly version: number | undefined;
  /** Key of the last object that the server has sent. */
  readonly after: string;
}

const encodeContinue = ({ version, after }: ContinueToken): string =>
  Buffer.from(JSON.stringify({ v: version ?? -1, k: after })).toString('base64url');

/** @throws StatusError 400 for a text that is not a continue token of this server */
function decodeContinue(text: string): ContinueToken {
  try {
    const token = JSON.parse(Buffer.from(text, 'base64url').toString()) as Json;
    const version = numberAt(token, 'v');
    const after = stringAt(token, 'k');
    if (isObject(token) && version !== undefined && after !== undefined)
      return { version: version === -1 ? undefined : version, after };
  } catch {
    // The error follows below.
  }
  throw badRequest(
    'invalid continue token: continue key is not valid: the token does not come from this server',
  );
}

const tooOld =
  'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.';

export function parseVersion(text: string | null): number | undefined {
  if (text === null || text === '') return undefined;
  if (!/^\d+$/.test(text))
    throw badRequest(
      `Invalid value: ${JSON.stringify(text)}: strconv.ParseUint: parsing ${JSON.stringify(text)}: invalid syntax`,
    );
  return Number(text);
}

interface Source {
  readonly version: number;
  readonly items: Iterable<Stored>;
}

/** Items of the current state, of an older version, or of the rest of a continued list. */
function sourceOf(
  store: ObjectStore,
  resource: ApiResource,
  namespace: string | undefined,
  query: URLSearchParams,
): Source {
  const token = query.get('continue');
  const version = parseVersion(query.get('resourceVersion'));
  const match = query.get('resourceVersionMatch');
  if (token !== null && token !== '') {
    if (version !== undefined && version !== 0)
      throw badRequest('specifying resource version is not allowed when using continue');
    const { version: begun, after } = decodeContinue(token);
    const at = begun ?? store.revision;
    const items = store.listAt(resource.key, at, namespace, after);
    if (items === undefined) throw expired(tooOld, encodeContinue({ version: undefined, after }));
    return { version: at, items };
  }
  if (version !== undefined && version > store.revision)
    throw tooLargeVersion(version, store.revision);
  if (match === 'Exact' && version !== undefined) {
    const items = store.listAt(resource.key, version, namespace);
    if (items === undefined) throw expired(`The resourceVersion for the provided list is too old.`);
    return { version, items };
  }
  return { version: store.revision, items: store.list(resource.key, namespace) };
}

/** Returns one page of a list. All pages of a list show the same version. */
export function listPage(
  store: ObjectStore,
  resource: ApiResource,
  selection: Selection,
  query: URLSearchParams,
): { readonly items: readonly Stored[]; readonly metadata: ListMeta } {
  const limit = Number(query.get('limit') ?? 0);
  if (!Number.isInteger(limit) || limit < 0)
    throw new StatusError(400, 'BadRequest', 'invalid limit');
  const { version, items } = sourceOf(store, resource, selection.namespace, query);
  const page: Stored[] = [];
  let remaining = 0;
  for (const stored of items) {
    if (!selection.matches(stored.object)) continue;
    if (limit === 0 || page.length < limit) page.push(stored);
    else remaining += 1;
  }
  const metadata = { resourceVersion: String(version) };
  const last = page.at(-1)?.object.metadata;
  if (remaining === 0 || last === undefined) return { items: page, metadata };
  const selective = query.get('labelSelector') !== null || query.get('fieldSelector') !== null;
  return {
    items: page,
    metadata: {
      ...metadata,
      continue: encodeContinue({ version, after: keyOf(last.namespace ?? '', last.name) }),
      // The page counts only matching objects, so `remainingItemCount` is omitted for lists with a
      // selector, as in Kubernetes.
      ...(selective ? {} : { remainingItemCount: remaining }),
    },
  };
}
