import { ApiError } from '@conversation-operator/kube/errors';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import type { ApiObject } from '../../packages/local-cluster/src/api/api-object.ts';
import { decode, type FieldValidation } from '../../packages/local-cluster/src/api/decode.ts';
import { checkObject } from '../../packages/local-cluster/src/api/object-writer.ts';
import { StatusError } from '../../packages/local-cluster/src/api/status-error.ts';
import type { Json } from '../../packages/local-cluster/src/json/json.ts';
import type { ApiResource } from '../../packages/local-cluster/src/registry/api-resource.ts';
import { customResource } from '../../packages/local-cluster/src/registry/custom-resource.ts';
import { crdOfKind } from './crds.ts';

const customKinds = new Map<string, ApiResource>();

/** Returns the kind as its definition describes it; undefined for a built-in kind. */
function customKindOf(
  resource: Pick<ResourceDefinition<KubeObject>, 'group' | 'plural'>,
): ApiResource | undefined {
  const known = customKinds.get(`${resource.group}/${resource.plural}`);
  if (known !== undefined) return known;
  const definition = crdOfKind(resource);
  if (definition === undefined) return undefined;
  const kind = customResource(definition as unknown as ApiObject);
  customKinds.set(kind.key, kind);
  return kind;
}

/**
 * Returns an object of the product's kinds as an API server stores it, with the defaults of its
 * schema; objects of other kinds pass as they are. With `old`, the object that it replaces, the
 * rules of changes apply too. The embedded cluster does the same.
 * @throws ApiError 422 for an object that the kind does not allow; 400 for a field that the kind
 * does not have, unless `validation` is Ignore: then the field is dropped, as by an API server
 */
export function admittedObject<T extends KubeObject>(
  resource: Pick<ResourceDefinition<KubeObject>, 'group' | 'plural'>,
  object: T,
  { old, validation = 'Strict' }: { readonly old?: T; readonly validation?: FieldValidation } = {},
): T {
  const kind = customKindOf(resource);
  if (kind === undefined) return object;
  try {
    // JSON drops the fields that are undefined, as on their way to an API server.
    const decoded = decode(JSON.parse(JSON.stringify(object)) as Json, kind, {
      validation,
      warn: () => undefined,
    }) as ApiObject;
    checkObject(kind, decoded, old as unknown as ApiObject | undefined);
    return decoded as unknown as T;
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    throw new ApiError(error.code, error.status, { cause: error });
  }
}
