/** A word of a script that is written from right to left, with its marks. */
const rightToLeft =
  /((?:[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]\p{M}*)+)/u;

/**
 * A text from left to right, word by word: words of a script from right to left are not reordered
 * among what is around them, so that every argument is seen where it is.
 */
export const InOrder = ({ children }: { readonly children: string }) => (
  <span class="in-order">
    {children
      .split(rightToLeft)
      .map((part, index) => (index % 2 === 1 ? <bdi key={index}>{part}</bdi> : part))}
  </span>
);
