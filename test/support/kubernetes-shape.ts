import * as models from '@kubernetes/client-node';

interface Attribute {
  readonly baseName: string;
  readonly type: string;
}
interface Model {
  getAttributeTypeMap(): readonly Attribute[];
}

const isModel = (candidate: unknown): candidate is Model =>
  typeof candidate === 'function' && 'getAttributeTypeMap' in candidate;

const modelOf = (type: string): Model | undefined => {
  const candidate: unknown = Object.entries(models).find(([name]) => name === type)?.[1];
  return isModel(candidate) ? candidate : undefined;
};

const primitive = (type: string, value: unknown): boolean => {
  switch (type) {
    case 'string':
    case 'Date':
    case 'V1MicroTime':
      return typeof value === 'string';
    case 'number':
      return typeof value === 'number';
    case 'boolean':
      return typeof value === 'boolean';
    case 'IntOrString':
      return typeof value === 'string' || typeof value === 'number';
    default:
      return true;
  }
};

/** Differences to the client library's model of a kind: unknown fields and wrong types. */
export function shapeErrors(type: string, value: unknown, path = ''): readonly string[] {
  const list = /^(?:Array|Set)<(.*)>$/.exec(type)?.[1];
  if (list !== undefined) {
    if (!Array.isArray(value)) return [`${path}: not a list`];
    return value.flatMap((entry, index) => shapeErrors(list, entry, `${path}[${index}]`));
  }
  const map = /^\{ \[key: string\]: (.*); \}$/.exec(type)?.[1];
  if (map !== undefined) {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      return [`${path}: not a map`];
    return Object.entries(value).flatMap(([key, entry]) =>
      shapeErrors(map, entry, `${path}.${key}`),
    );
  }
  const model = modelOf(type);
  if (model === undefined) return primitive(type, value) ? [] : [`${path}: not a ${type}`];
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return [`${path}: not a ${type}`];
  const attributes = new Map(
    model.getAttributeTypeMap().map(({ baseName, type: inner }) => [baseName, inner]),
  );
  return Object.entries(value).flatMap(([key, entry]) => {
    const inner = attributes.get(key);
    return inner === undefined
      ? [`${path}.${key}: unknown`]
      : shapeErrors(inner, entry, `${path}.${key}`);
  });
}
