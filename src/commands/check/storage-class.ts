import type { StorageClass } from './resources.ts';
import { storageClasses } from './resources.ts';
import { errorOf, FindingCode, outcomeOf, warningOf, type Finding } from './finding.ts';
import { withValue, type Check, type Installation } from './scene.ts';

const defaultAnnotations = [
  'storageclass.kubernetes.io/is-default-class',
  'storageclass.beta.kubernetes.io/is-default-class',
];
const isDefault = ({ metadata }: StorageClass): boolean =>
  defaultAnnotations.some((name) => metadata.annotations?.[name] === 'true');

export interface StorageFacts extends Installation {
  /** Class that the template names; undefined: the default class of the cluster. */
  readonly wanted: string | undefined;
  readonly classes: readonly StorageClass[];
}

const breaks = 'The volume of every sandbox stays unbound, and starts end in VolumeNotBound.';

/** Pure. The causes are those of `volumeNotBound`, which has no right to read classes. */
export function storageClassFindings(facts: StorageFacts): readonly Finding[] {
  const { wanted, classes } = facts;
  const names = classes.map(({ metadata }) => metadata.name);
  const [first] = names;
  const setting = '--set defaultTemplate.storage.storageClassName';
  if (wanted !== undefined && !names.includes(wanted))
    return [
      errorOf(FindingCode.volumeNotBound, {
        cause: `The storage class ${wanted} of the template does not exist; there ${names.length === 0 ? 'is none' : `are: ${names.join(', ')}`}.`,
        breaks,
        mend: withValue(facts, `${setting}=${first ?? 'CLASS'}`),
      }),
    ];
  const defaults = classes.filter(isDefault);
  if (wanted === undefined && defaults.length === 0)
    return [
      errorOf(FindingCode.volumeNotBound, {
        cause: `The template names no storage class, and the cluster has no default one${names.length === 0 ? '' : ` among ${names.join(', ')}`}.`,
        breaks,
        mend:
          first === undefined
            ? withValue(facts, `${setting}=CLASS # once a provisioner is installed`)
            : `kubectl annotate storageclass ${first} ${defaultAnnotations[0] ?? ''}=true`,
      }),
    ];
  const used = classes.find((each) =>
    wanted === undefined ? isDefault(each) : each.metadata.name === wanted,
  );
  return [
    ...(wanted === undefined && defaults.length > 1
      ? [
          warningOf(FindingCode.storageClassAmbiguous, {
            cause: `${defaults.length} storage classes are default: ${defaults.map(({ metadata }) => metadata.name).join(', ')}.`,
            breaks: 'Volumes get the newest of them, which may change.',
            mend: withValue(facts, `${setting}=${defaults[0]?.metadata.name ?? ''}`),
          }),
        ]
      : []),
    ...(used?.provisioner === 'kubernetes.io/no-provisioner'
      ? [
          warningOf(FindingCode.volumeNotBound, {
            cause: `The storage class ${used.metadata.name} makes no volumes (kubernetes.io/no-provisioner).`,
            breaks: 'Each sandbox waits until a person has made a volume for its claim.',
            mend: withValue(facts, `${setting}=CLASS`),
          }),
        ]
      : []),
  ];
}

export const storageClassCheck: Check = {
  name: 'storage-class',
  limitMs: 15_000,
  needsApiServer: true,
  run: async (scene, signal) => {
    const template = await scene.template();
    const { items: classes } = await scene.client.list(storageClasses, { signal });
    const wanted = template.spec.storage.storageClassName;
    const name = wanted ?? classes.find(isDefault)?.metadata.name ?? '';
    return outcomeOf(
      storageClassFindings({ ...scene, wanted, classes }),
      `the class ${name} exists`,
    );
  },
};
