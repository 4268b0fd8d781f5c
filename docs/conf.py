"""How the site is built: ``make docs`` with the gallery run, ``make docs-fast`` without."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the generators, and the tests, which know the layers of the package

from generate.names import aliases  # noqa: E402
from numpydoc.xref import DEFAULT_LINKS  # noqa: E402

import papilio  # noqa: E402

project = "papilio"
author = "The papilio developers"
copyright = f"{author}. papilio {papilio.__version__}, BSD-3-Clause"
version = release = papilio.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "generate",
]
exclude_patterns = ["_build", "_generated", "_templates", "figures", "generate", "**/README.md"]
templates_path = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
nitpicky = True
highlight_language = "python"
smartquotes_action = "qe"  # quotes and ellipses; dashes stand before options

# -- pages -----------------------------------------------------------------------------------------------

myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

# MathJax as one file without fonts, from the package sphinx-mathjax-offline: nothing is loaded from elsewhere.
mathjax_path = "mathjax/tex-svg-full.js"
mathjax3_config = {"svg": {"fontCache": "global"}, "options": {"enableMenu": False}}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

# -- reference -------------------------------------------------------------------------------------------

autosummary_generate = True
# Names that differ in case only would overwrite each other on some file systems.
autosummary_filename_map = {"papilio.KSVD": "papilio.KSVD-class", "papilio.Tradeoff": "papilio.Tradeoff-class"}
autodoc_typehints = "none"  # the docstrings say them in words
autodoc_member_order = "groupwise"
autodoc_docstring_signature = False
add_module_names = False
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
default_role = "py:obj"
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = aliases()
DEFAULT_LINKS.clear()  # numpydoc's own, to sites that would have to be fetched

# -- gallery ---------------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "doc_module": ("papilio",),
    "reference_url": {"papilio": None},
    "backreferences_dir": "gallery/backreferences",
    "within_subsection_order": "generate.gallery.Order",
    "image_srcset": ["2x"],
    "thumbnail_size": (480, 330),
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "show_signature": False,
    "download_all_examples": True,
    "plot_gallery": "True",
}

# -- the look --------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "papilio"
html_static_path = ["_static"]
html_css_files = ["papilio.css"]
html_favicon = "_static/favicon.svg"
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_context = {"default_mode": "auto"}
html_sidebars = {"**": ["sidebar-nav-bs"]} | {
    page: [] for page in ("index", "faster", "faq", "changelog", "contributing", "security", "search")
}
html_theme_options = {
    "logo": {"text": "papilio", "image_light": "_static/logo.svg", "image_dark": "_static/logo-dark.svg"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": False,
}

# -- where it is published -------------------------------------------------------------------------------

# The workflow "site" says where, and as which version. Elsewhere there is no menu of versions, and no link to
# notebooks on Binder or Colab, which take them and papilio from where they are published.
if SITE_URL := os.environ.get("SITE_URL"):
    SITE_VERSION, (owner, repository) = os.environ["SITE_VERSION"], os.environ["GITHUB_REPOSITORY"].split("/")
    html_baseurl = f"{SITE_URL}/{SITE_VERSION}/"
    html_theme_options |= {
        "switcher": {"json_url": f"{SITE_URL}/switcher.json", "version_match": SITE_VERSION},
        "check_switcher": False,
        "navbar_end": ["version-switcher", "theme-switcher"],
        "show_version_warning_banner": True,
    }
    sphinx_gallery_conf |= {
        "first_notebook_cell": '# Where papilio is missing: %pip install "papilio[cli]"\n%matplotlib inline',
        "binder": {
            "binderhub_url": "https://mybinder.org",
            "org": owner,
            "repo": repository,
            "branch": "gh-pages",
            "filepath_prefix": SITE_VERSION,
            "dependencies": "../binder/requirements.txt",
            "use_jupyter_lab": True,
        },
    }
