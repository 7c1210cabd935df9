import { crdOf, definitions } from '../../src/resources/crd.ts';
import { group } from '../../src/resources/group.ts';

/** The parts of a CustomResourceDefinition that tests read. */
export interface Definition {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly group: string;
    readonly names: { readonly plural: string };
    readonly versions: readonly { readonly name: string }[];
  };
}

/**
 * Returns the definition of a kind of the product; undefined for another kind. The source of
 * `crds/` makes it, which takes less time than to parse their YAML; a unit test compares the two.
 */
export function crdOfKind(kind: {
  readonly group: string;
  readonly plural: string;
}): Definition | undefined {
  const definition = definitions.find(({ plural }) => plural === kind.plural);
  if (kind.group !== group || definition === undefined) return undefined;
  // As from a file: without the fields that are undefined.
  return JSON.parse(JSON.stringify(crdOf(definition))) as Definition;
}

export const crds = (): readonly Definition[] =>
  definitions.flatMap(({ plural }) => crdOfKind({ group, plural }) ?? []);
