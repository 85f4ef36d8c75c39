// The theme. No module: it runs before the page is drawn, or the wrong colours would flash.

{
  const NAME = "cr5-theme";
  const THEMES = ["auto", "light", "dark"];
  let theme = "auto";

  // Storage may be forbidden: then nothing is remembered.
  try {
    const kept = localStorage.getItem(NAME);
    if (THEMES.includes(kept)) theme = kept;
  } catch {}

  const dress = () => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    // What the browser itself draws before the style sheet has come.
    document.querySelector("meta[name=color-scheme]").content = theme === "auto" ? "light dark" : theme;
  };

  const label = (button) => {
    const said = `Colours: ${theme === "auto" ? "as the system" : theme}`;
    button.setAttribute("aria-label", said);
    button.dataset.tip = said;
  };

  dress();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    label(button);
    button.addEventListener("click", () => {
      theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
      dress();
      label(button);
      try {
        localStorage.setItem(NAME, theme);
      } catch {}
    });
  });
}
