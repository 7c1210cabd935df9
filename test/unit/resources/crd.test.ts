import { readFileSync, readdirSync } from 'node:fs';
import { crdFiles } from '../../../src/commands/crds.ts';
import { definitions } from '../../../src/resources/crd.ts';

const folder = new URL('../../../crds/', import.meta.url);

describe('the folder of the CRDs in the chart', () => {
  it('holds one file for each kind and nothing else', () => {
    expect(readdirSync(folder).sort()).toEqual([...crdFiles().keys()].sort());
    expect(definitions).toHaveLength(10);
  });

  it.each([...crdFiles()])('%s is what the schemas say (make crds)', (name, text) => {
    expect(readFileSync(new URL(name, folder), 'utf8')).toBe(text);
  });
});

describe('the columns of kubectl get', () => {
  // kubectl prints a time in the future as <invalid> in a column of this type.
  it.each(definitions.map(({ plural, printerColumns }) => [plural, printerColumns] as const))(
    'of %s have the type date for no time that can be in the future',
    (_plural, columns) => {
      expect(columns.filter(({ type }) => type === 'date')).toEqual([]);
    },
  );
});
