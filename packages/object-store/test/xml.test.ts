import fc from 'fast-check';
import { cpuMsOf } from '../../../test/support/cpu-time.ts';
import { childrenOf, readXml, textAt, type XmlElement } from '../src/xml.ts';

describe('a document of S3', () => {
  it('is read with its elements and references', () => {
    const root = readXml(
      '\uFEFF<?xml version="1.0" encoding="UTF-8"?>\n<s:List xmlns:s="http://x/" a=\'1\'>\n' +
        '<!-- a - comment --><Key>a&amp;b&#x41;&#66;&lt;&quot;&apos;&gt;</Key><Key/><Owner ><Id>7</Id></Owner>\n</s:List>\n',
    );
    expect(root?.name).toBe('List');
    expect(root && childrenOf(root, 'Key').map(({ text }) => text)).toEqual([`a&bAB<"'>`, '']);
    expect(root && textAt(root, 'Owner', 'Id')).toBe('7');
    expect(root && textAt(root, 'Owner', 'Name')).toBeUndefined();
  });

  it.each([
    ['no text', ''],
    ['text alone', 'text'],
    ['an open element', '<a>'],
    ['another end', '<a></b>'],
    ['an end alone', '</a>'],
    ['two roots', '<a/><b/>'],
    ['text behind the root', '<a/>text'],
    ['a type', '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'],
    ['an entity', '<a>&b;</a>'],
    ['a bare reference', '<a>&</a>'],
    ['no character', '<a>&#0;</a>'],
    ['half a character', '<a>&#xD800;</a>'],
    ['more than Unicode', '<a>&#x110000;</a>'],
    ['a section', '<a><![CDATA[x]]></a>'],
    ['an instruction', '<a><?php x ?></a>'],
    ['an attribute without a value', '<a b></a>'],
    ['an attribute with a tag', '<a b="<"/>'],
    ['a deep document', '<a>'.repeat(20) + '</a>'.repeat(20)],
    ['very many elements', `<a>${'<b/>'.repeat(32_001)}</a>`],
  ])('is rejected: %s', (_name, text) => {
    expect(readXml(text)).toBeUndefined();
  });

  it('is read as it was written', () => {
    const escape = (text: string) =>
      text.replaceAll(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`);
    const write = ({ name, text, children }: XmlElement): string =>
      `<${name}>${escape(text)}${children.map(write).join('')}</${name}>`;
    const element = (depth: number): fc.Arbitrary<XmlElement> =>
      fc.record({
        name: fc.stringMatching(/^[A-Za-z][A-Za-z0-9]{0,5}$/),
        text: fc.string({ unit: 'grapheme' }).filter((text) => !text.includes('\0')),
        children: depth === 0 ? fc.constant([]) : fc.array(element(depth - 1), { maxLength: 3 }),
      });
    fc.assert(fc.property(element(3), (root) => expect(readXml(write(root))).toEqual(root)));
  });

  it('takes time in proportion to its length, whatever it contains', async () => {
    const piece = fc.constantFrom(
      '<',
      '>',
      '&',
      '<!--',
      '-->',
      '<a',
      ' b="',
      '"',
      ' ',
      '</a>',
      '=',
      '-',
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 6 }), async (pieces) => {
        const text = `<a>${pieces.join('').repeat(20_000)}`;
        expect(await cpuMsOf(() => readXml(text))).toBeLessThan(2000);
      }),
      { numRuns: 30 },
    );
  });
});
