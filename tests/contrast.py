"""The contrast of text, for tests that open a page in a browser."""

CONTRASTS = """hidden => {
  const parse = colour => colour.match(/[\\d.]+/g).map(Number);
  const linear = v => v <= 10.31 ? v / 3294.6 : ((v / 255 + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
  const ground = e => {
    const colour = parse(getComputedStyle(e).backgroundColor);
    return colour[3] === 0 && e.parentElement ? ground(e.parentElement) : colour;
  };
  const ratio = e => {
    const style = getComputedStyle(e), ink = e instanceof SVGElement ? style.fill : style.color;
    const [dark, bright] = [light(parse(ink)), light(ground(e))].sort((a, b) => a - b);
    return (bright + .05) / (dark + .05);
  };
  const hasText = e => [...e.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.data.trim());
  const shown = e => hidden || (e.checkVisibility() && !e.closest('script, style, option, :disabled'));
  const texts = [...document.body.querySelectorAll('*')].filter(e => hasText(e) && shown(e));
  return texts.map(e => [e.textContent.slice(0, 40), ratio(e)]);
}"""
"""JavaScript: every piece of text with its contrast to what is behind it (WCAG). The argument says whether hidden text
counts too."""
