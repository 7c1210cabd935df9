import type { OwnerReference } from '@conversation-operator/kube/object';
import { isArray, isObject, objectAt, type Json, type JsonObject } from '../json/json.ts';
import type { ApiResource } from '../registry/api-resource.ts';
import {
  duplicate,
  forbiddenField,
  invalidValue,
  required,
  tooLong,
  type FieldError,
} from '../schema/field-error.ts';
import type { ApiObject, Meta } from './api-object.ts';

const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const subdomain = `${label}(\\.${label})*`;
const qualifiedPart = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';

const subdomainPattern = new RegExp(`^${subdomain}$`);
const qualifiedPattern = new RegExp(`^${qualifiedPart}$`);
const valuePattern = new RegExp(`^(${qualifiedPart})?$`);

interface NameRule {
  readonly pattern: RegExp;
  readonly max: number;
  readonly text: string;
}

/** Rules for names and their messages, from apimachinery `util/validation`. */
const nameRules: Readonly<Record<ApiResource['nameRule'], NameRule>> = {
  subdomain: {
    pattern: subdomainPattern,
    max: 253,
    text: `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '${subdomain}')`,
  },
  label: {
    pattern: new RegExp(`^${label}$`),
    max: 63,
    text: `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '${label}')`,
  },
};

export function nameErrors(
  name: string,
  rule: ApiResource['nameRule'],
  field: string,
  shown = name,
): FieldError[] {
  const { pattern, max, text } = nameRules[rule];
  if (rule === 'label' && name.includes('.'))
    return [invalidValue(field, shown, 'must not contain dots')];
  if (name.length > max)
    return [invalidValue(field, shown, `must be no more than ${max} characters`)];
  return pattern.test(name) ? [] : [invalidValue(field, shown, text)];
}

const qualifiedText = `name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '${qualifiedPart}')`;

/** Returns what is wrong with a qualified name (`example.com/name` or `name`), if anything. */
export function qualifiedNameFault(key: string): string | undefined {
  const parts = key.split('/');
  const name = parts.at(-1) ?? '';
  if (parts.length > 2)
    return `a qualified name must ${qualifiedText.slice('name part must '.length)} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`;
  const [prefix] = parts;
  if (parts.length === 2 && prefix === '') return 'prefix part must be non-empty';
  if (
    parts.length === 2 &&
    (prefix === undefined || prefix.length > 253 || !subdomainPattern.test(prefix))
  )
    return `prefix part ${nameRules.subdomain.text}`;
  if (name === '') return 'name part must be non-empty';
  if (name.length > 63) return 'name part must be no more than 63 characters';
  return qualifiedPattern.test(name) ? undefined : qualifiedText;
}

export function labelValueFault(value: string): string | undefined {
  if (value.length > 63) return 'must be no more than 63 characters';
  return valuePattern.test(value)
    ? undefined
    : `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(${qualifiedPart})?')`;
}

export function labelErrors(labels: Json | undefined, field = 'metadata.labels'): FieldError[] {
  return Object.entries(isObject(labels) ? labels : {}).flatMap(([key, value]) => {
    const fault = qualifiedNameFault(key);
    if (fault !== undefined) return [invalidValue(field, key, fault)];
    if (typeof value !== 'string')
      return [invalidValue(`${field}.${key}`, value, 'must be a string')];
    const wrong = labelValueFault(value);
    return wrong === undefined ? [] : [invalidValue(field, value, wrong)];
  });
}

const maxAnnotationBytes = 256 * 1024;

function annotationErrors(annotations: JsonObject): FieldError[] {
  const errors = Object.keys(annotations).flatMap((key) => {
    const fault = qualifiedNameFault(key.toLowerCase());
    return fault === undefined ? [] : [invalidValue('metadata.annotations', key, fault)];
  });
  const bytes = Object.entries(annotations).reduce(
    (sum, [key, value]) =>
      sum + Buffer.byteLength(key) + (typeof value === 'string' ? Buffer.byteLength(value) : 0),
    0,
  );
  if (bytes > maxAnnotationBytes) errors.push(tooLong('metadata.annotations', maxAnnotationBytes));
  return errors;
}

const ownerErrors = (references: readonly OwnerReference[]): FieldError[] =>
  references.flatMap((reference) =>
    (['apiVersion', 'kind', 'name', 'uid'] as const)
      .filter((key) => ((reference[key] as string | undefined) ?? '') === '')
      .map((key) =>
        invalidValue(
          `metadata.ownerReferences.${key}`,
          '',
          key === 'apiVersion' ? 'version must not be empty' : 'must not be empty',
        ),
      ),
  );

const standardFinalizers: ReadonlySet<string> = new Set([
  'orphan',
  'foregroundDeletion',
  'kubernetes',
]);

function finalizerErrors(finalizers: readonly string[], old: Meta | undefined): FieldError[] {
  const errors = finalizers.flatMap((name, index) => {
    if (finalizers.indexOf(name) !== index)
      return [duplicate(`metadata.finalizers[${index}]`, name)];
    if (standardFinalizers.has(name)) return [];
    const fault = qualifiedNameFault(name);
    return fault === undefined ? [] : [invalidValue('metadata.finalizers', name, fault)];
  });
  const added = finalizers.filter((name) => old?.finalizers?.includes(name) !== true);
  if (old?.deletionTimestamp !== undefined && added.length > 0) {
    const names = added.map((name) => JSON.stringify(name)).join(', ');
    errors.push(
      forbiddenField(
        'metadata.finalizers',
        `no new finalizers can be added if the object is being deleted, found new finalizers []string{${names}}`,
      ),
    );
  }
  return errors;
}

export function metadataErrors(
  object: ApiObject,
  resource: ApiResource,
  old?: ApiObject,
): readonly FieldError[] {
  const { metadata } = object;
  return [
    ...(old === undefined ? newNameErrors(metadata, resource) : []),
    ...labelErrors(metadata.labels),
    ...annotationErrors(objectAt(metadata, 'annotations') ?? {}),
    ...ownerErrors(metadata.ownerReferences ?? []),
    ...finalizerErrors(metadata.finalizers ?? [], old?.metadata),
  ];
}

const newNameErrors = ({ name, generateName = '' }: Meta, resource: ApiResource): FieldError[] => [
  // A generateName may end with a dash, because a suffix follows.
  ...(generateName === ''
    ? []
    : nameErrors(
        generateName.replace(/-$/, 'a'),
        resource.nameRule,
        'metadata.generateName',
        generateName,
      )),
  ...(name === ''
    ? [required('metadata.name', 'name or generateName is required')]
    : nameErrors(name, resource.nameRule, 'metadata.name')),
];

/** Removes nulls, as Go does, but not from `openAPIV3Schema`, where a default may be null. */
export function dropNulls(value: Json): Json {
  if (isArray(value)) return value.filter((item) => item !== null).map(dropNulls);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, child]) =>
      child === null || child === undefined
        ? []
        : [[key, key === 'openAPIV3Schema' ? child : dropNulls(child)]],
    ),
  );
}
